"""Stop a program after a number of gradients, and time each of them, for scripts that run programs of DiffTaichi.

This file is imported by scripts beside it, which run under Taichi or under `stackgrad.compat`; it imports nothing of
this project. Times are those of the processor, so that other programs of the machine count little.
"""

from __future__ import annotations

import sys
import time
from typing import Any


class Stopped(BaseException):
    """Signal that the program has computed as many gradients as were asked for."""


def _fields() -> dict[str, Any]:
    """Return the fields of the program by their names."""
    program = sys.modules["__main__"]
    return {name: value for name, value in vars(program).items() if hasattr(value, "from_numpy")}


class Watch:
    """Represent the times of the gradients that a program computes, and the fields as they were before the last one.

    A program may read what an earlier iteration has left in its fields, so that the loss is computed again from the
    same contents.

    Attributes:
        wanted: the number of gradients after which the program is stopped.
        seconds: the time of each gradient so far, with the forward pass.
        contents: the contents of the fields before the last gradient, by the name of the field.
    """

    def __init__(self, peer: Any, wanted: int, *, keeps: bool = True) -> None:
        """Begin to watch a program that has computed no gradient so far.

        Args:
            peer: Taichi, or stackgrad under its name.
            wanted: the number of gradients.
            keeps: True to copy the contents of all fields before the last gradient.
        """
        self._peer, self.wanted, self._keeps = peer, wanted, keeps
        self.seconds: list[float] = []
        self.contents: dict[str, Any] = {}
        self._begun = 0.0

    def begin(self) -> None:
        """Start the time of a gradient."""
        self._peer.sync()
        if self._keeps and len(self.seconds) + 1 >= self.wanted:
            self.contents = {name: array.to_numpy() for name, array in _fields().items()}
        self._begun = time.process_time()

    @property
    def is_running(self) -> bool:
        """Return True if the time of a gradient has begun."""
        return self._begun > 0

    def restore(self) -> None:
        """Give all fields the contents that they had before the last gradient."""
        for name, array in _fields().items():
            array.from_numpy(self.contents[name])

    def end(self) -> None:
        """End the time of a gradient, and stop the program if it was the last one."""
        self._peer.sync()
        self.seconds.append(time.process_time() - self._begun)
        if len(self.seconds) >= self.wanted:
            raise Stopped


def watch_tapes(peer: Any, watch: Watch) -> None:
    """Notify a watch of each tape of the program."""

    class Tape(peer.ad.Tape):  # type: ignore[misc]
        def __enter__(self) -> Any:
            watch.begin()
            return super().__enter__()

        def __exit__(self, *exception: Any) -> None:
            super().__exit__(*exception)
            if exception[0] is None:
                watch.end()

    peer.ad.Tape = peer.Tape = Tape


def watch_clears(peer: Any, watch: Watch) -> None:
    """Notify a watch each time the program clears all gradients, which it does at the start of an iteration."""
    clear = peer.ad.clear_all_gradients

    def clear_all_gradients() -> None:
        if watch.is_running:
            watch.end()
        clear()
        watch.begin()

    peer.ad.clear_all_gradients = peer.clear_all_gradients = clear_all_gradients
