"""Peers: other systems that run the same program from their own source text, each in a process that may crash.

Invariant: nothing of a peer is imported here. A process that dies or hangs costs its case and is started again.
"""
from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .launch import GRAD
from .model import Program, render_source
from .model.dialects import DIALECTS, NotInDialect
from .outcome import Ok, Outcome, Trap, Unsupported

PEERS = tuple(name for name in DIALECTS if name != "stackgrad")
SCRIPT = Path(__file__).with_name("peer_process.py")
DIED, HUNG = "Crash", "Hang"
"""Kinds of the traps that stand for the end of a process."""

_DECLARED = ("CompilationError", "SyntaxError", "TypeError", "NotImplementedError", "NameError", "AttributeError")
"""Endings of the names of exceptions by which a peer says that it does not take a program."""


@dataclass(frozen=True)
class Answer:
    """What a peer made of a program. gradient: adjoints of the initial content by `x.grad`."""

    forward: Outcome
    gradient: Outcome


@dataclass
class Peer:
    """A peer by the name of its dialect. limit: seconds for a program. command: of the process."""

    name: str
    limit: float = 60.0
    command: tuple[str, ...] = (sys.executable, str(SCRIPT))
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def absent(self) -> str | None:
        """Why it cannot run here, or None."""
        package = DIALECTS[self.name].package
        return None if find_spec(package) else f"{package} is not installed; cure: pip install 'stackgrad[peers]'"

    def supports(self, program: Program) -> str | None:
        """Why the dialect cannot say this program, or None."""
        try:
            render_source(program, self.name)
        except NotInDialect as error:
            return str(error)
        return None

    def run(self, program: Program) -> Answer:
        """The program forward, then its gradient at the content that this left."""
        reason = self.supports(program)
        if reason is not None:
            return Answer(Unsupported(reason), Unsupported(reason))
        found = self.ask(render_source(program, self.name))
        return found if isinstance(found, Answer) else read_answer(program, found)

    def ask(self, text: str) -> Answer | dict[str, Any]:
        """What the text prints; an Answer where the process did not live to say it."""
        process = self._started()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(text) + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], self.limit)[0]:
                return self._lost(HUNG, f"no answer within {self.limit:.0f} s")
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return self._lost(DIED, f"the process ended with status {process.wait(10)}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _lost(self, kind: str, reason: str) -> Answer:
        self.close()
        return Answer(Trap(kind, reason), Trap(kind, reason))

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
        return self._process

    def close(self) -> None:
        """End the process; the next program starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_answer(program: Program, found: Mapping[str, Any]) -> Answer:
    """The outcomes in what a rendered file prints."""
    error = found.get("error")
    failed = None if error is None else _failure(error)
    forward, gradient = found.get("forward"), found.get("gradient")
    if forward is None or (gradient is None and failed is None):
        failed = failed or Trap("ValueError", "the file printed no result")
    arrays = {f.name: (f.storage, f.dtype.dtype) for f in program.fields}
    return Answer(
        failed if forward is None else Ok({n: _array(v, *arrays[n]) for n, v in forward.items()}),  # type: ignore[arg-type]
        failed if gradient is None else Ok({n + GRAD: _array(v, *arrays[n]) for n, v in gradient.items()}),  # type: ignore[arg-type]
    )


def _failure(error: str) -> Outcome:
    kind, _, message = error.partition(": ")
    return Unsupported(error.splitlines()[0]) if kind.endswith(_DECLARED) else Trap(kind, message)


def _array(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    plain = [float.fromhex(v) if isinstance(v, str) else v for v in values]
    return np.array(plain, dtype).reshape(shape)
