"""Launches that stand ready in machine code, for the calls of one kernel in one direction.

Invariant: a standing launch repeats what a launch from Python has just established, and nothing else: the same
specialisation on arrays of the same kinds, sizes that are known for just this state. Whatever it cannot see natively
(guards, results, random numbers, views, copies of before, prints, claims) keeps a call in Python.
"""
from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from .backends.cpu.handles import FAILED_NUMBER, FIRST, NEXT
from .backends.words import WATCHED, address_of
from .compiler.errors import AdstackOverflow
from .session import RUNTIME

if TYPE_CHECKING:
    from .backends.base import Arrays, Scalars, Sizes
    from .backends.cpu.standing import Argument, Held, Standing
    from .backends.launcher import Launcher

HANDLES = 8
"""Launches that stand ready at once, of one kernel in one direction."""

PATIENT = 3
"""Launches from Python before the first stands ready."""

_LONGEST_WAIT = 1024

_NUMBERS = count(1)

_LINGERING: list[Standing] = []
"""Dropped while a launch with them was under way."""


Function = Callable[..., Any]


class Situation(NamedTuple):
    """What a call launches, and the state it found. key: equal for calls that one handle may serve.

    sizes: for the present state.
    """

    key: tuple[Any, ...]
    launcher: Launcher
    arguments: list[Argument]
    held: list[Held]
    arrays: Arrays
    scalars: Scalars
    sizes: Sizes


class Native:
    """The standing launches of a kernel in one direction.

    `builtin` makes the function through which they are called.
    """

    __slots__ = ("_root", "_standing", "_launchers", "_waited", "_wait", "_lock", "__weakref__")

    def __init__(self) -> None:
        self._root: array[int] | None = None
        self._standing: dict[tuple[Any, ...], Standing] = {}
        self._launchers: dict[int, Launcher] = {}
        self._waited = 0
        self._wait = PATIENT
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """No launch stands ready any more."""
        for key in list(self._standing):
            self._drop(key)
        self._waited, self._wait = 0, PATIENT

    @property
    def launched(self) -> int:
        """Launches by the handles that stand now, since each was last made to."""
        return sum(one.launched for one in self._standing.values())

    def is_due(self) -> bool:
        """Whether it is time, after a launch from Python, to let one like it stand ready."""
        self._waited += 1
        return self._waited >= self._wait and not RUNTIME.words[WATCHED] and self._wait > 0

    @property
    def is_new(self) -> bool:
        """Whether `builtin` was not called yet, or in vain."""
        return self._root is None

    def builtin(self, slow: Function, raiser: Function) -> Function | None:
        """What calls are to go through: it launches what stands ready, and passes everything else on to `slow`.

        raiser: is called when a launch has failed, and calls `fail`. None if launches cannot stand ready here. Both
        are kept alive.
        """
        from .backends.cpu.trampoline import new_root, trampoline

        machine = trampoline()
        if machine is None:
            return None
        self._root = new_root(RUNTIME.words)
        return machine.builtin(self._root, slow, raiser)

    def stand(self, situation: Situation | None) -> None:
        """Let calls in this situation be launched natively; None: the kernel cannot be."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._waited = 0
            if situation is None:
                self._wait = _LONGEST_WAIT
            else:
                self._stand(situation)
        finally:
            self._lock.release()

    def _stand(self, situation: Situation) -> None:
        for key in [key for key, one in self._standing.items() if one.is_orphan]:
            self._drop(key)
        found = self._standing.get(situation.key)
        if found is not None:
            self._wait = 1 if found.launched else min(2 * self._wait, _LONGEST_WAIT)
        else:
            found = self._make(situation)
        if found is not None and found.stand(
            RUNTIME.generation, situation.held, situation.arrays, situation.scalars, situation.sizes
        ):
            situation.launcher.stand(found.number, situation.sizes)

    def _make(self, situation: Situation) -> Standing | None:
        """A new handle at the head of the chain."""
        from .backends.cpu.standing import Standing
        from .backends.cpu.trampoline import trampoline

        machine = trampoline()
        if machine is None or self._root is None:
            return None
        while len(self._standing) >= HANDLES:
            self._drop(next(iter(self._standing)))
        launcher, number = situation.launcher, next(_NUMBERS)
        executable: Any = launcher.compile()
        made = Standing(
            executable, launcher.stats.words, number, launcher.is_sized, machine.patience, situation.arguments,
            situation.held,
        )  # fmt: skip
        self._standing[situation.key], self._launchers[number] = made, launcher
        self._link()
        return made

    def _drop(self, key: tuple[Any, ...]) -> None:
        """Unlink a handle; its memory stays while a launch with it is under way."""
        dropped = self._standing.pop(key)
        self._link()
        self._launchers.pop(dropped.number).stand(dropped.number, None)
        _LINGERING[:] = [one for one in _LINGERING if one.is_taken]
        if dropped.is_taken:
            _LINGERING.append(dropped)

    def _link(self) -> None:
        """Chain the handles, the newest first."""
        assert self._root is not None
        following = 0
        for one in self._standing.values():
            one.words[NEXT] = following
            following = address_of(one.words)
        self._root[FIRST] = following

    def fail(self, memory: Callable[[], tuple[Arrays, Scalars]]) -> None:
        """Raise the error of the launch that has just failed. memory: what that launch ran on."""
        assert self._root is not None
        number = self._root[FAILED_NUMBER]
        standing = next(one for one in (*self._standing.values(), *_LINGERING) if one.number == number)
        sizes, launcher = standing.sizes, self._launchers.get(number)
        try:
            standing.refuse()
        except AdstackOverflow as overflow:
            if launcher is None:
                raise
            arrays, scalars = memory()
            raise launcher.explain(overflow, sizes, arrays, scalars) from overflow
