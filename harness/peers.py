"""Peers: other systems that run the same program from their own source text, each in a process that may crash.

Invariant: nothing of a peer is imported here. A process that dies or hangs costs its case and is started again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .apart import ALONE
from .launch import GRAD
from .model import Program, render_source
from .model.dialects import DIALECTS, NotInDialect
from .model.guard import guarded
from .model.source import definitions, start_line
from .outcome import Ok, Outcome, Trap, Unsupported

PEERS = tuple(name for name in DIALECTS if name != "stackgrad")
SCRIPT = Path(__file__).with_name("peer_process.py")
ARCH = "cpu"
DIED, HUNG = "Crash", "Hang"
"""Kinds of the traps that stand for the end of a process."""

PYTHON = "STACKGRAD_PEER_PYTHON"
"""Environment variable: the interpreter that has the peers, where this one has not."""

_DECLARED = ("CompilationError", "SyntaxError", "TypeError", "NotImplementedError", "NameError", "AttributeError")
"""Endings of the names of exceptions by which a peer says that it does not take a program."""

_REFUSING = (
    "not supported",
    "invalid program input for autodiff",
    "should be positive",
    "is unresolved after",
    "not allowed",
)
"""What its messages say, whatever the exception."""

_OVERFLOWS = ("stack overflow", "adstack overflow")
"""What they say where what a gradient saved found no room."""

OVERFLOW = "Overflow"
"""Kind of the trap that stands for one of these."""

MANY = 40
"""Programs that one start of a peer serves: what it keeps of each is gone with the next start."""


def peer_python() -> str:
    """The interpreter of peers: the one that PYTHON names, or this one."""
    return os.environ.get(PYTHON) or sys.executable


@cache
def installed(package: str, python: str) -> str | None:
    """The version of a package that an interpreter has, or None; without importing it."""
    if python == sys.executable and not find_spec(package):
        return None
    ask = f"{ALONE}from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return found.stdout.strip() or None


@dataclass(frozen=True)
class Answer:
    """What a peer made of a program. gradient: adjoints of the initial content by `x.grad`."""

    forward: Outcome
    gradient: Outcome


@dataclass
class Peer:
    """A peer by the name of its dialect. limit: seconds for a program. command: of the process.

    One start of the package serves programs that start it alike, MANY at most.
    """

    name: str
    limit: float = 60.0
    command: tuple[str, ...] = field(default_factory=lambda: (peer_python(), str(SCRIPT)))
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)
    _start: str = field(default="", repr=False)
    _served: int = field(default=0, repr=False)

    @property
    def absent(self) -> str | None:
        """Why it cannot run here, or None."""
        package = DIALECTS[self.name].package
        if installed(package, self.command[0]):
            return None
        cure = f"pip install 'stackgrad[peers]', or name an interpreter that has it in {PYTHON}"
        return f"{package} is not installed; cure: {cure}"

    def supports(self, program: Program) -> str | None:
        """Why the dialect cannot say this program, or None."""
        try:
            render_source(program, self.name)
        except NotInDialect as error:
            return str(error)
        return None

    def run(self, program: Program) -> Answer:
        """The program forward, then its gradient at the content that this left."""
        return self.begin(program)()

    def begin(self, program: Program, gradient_alone: bool = False) -> Callable[[], Answer]:
        """Start to run a program; what is returned waits for the answer. One at a time. gradient_alone: at the content
        that the program starts with.
        """
        reason = self.supports(program)
        if reason is not None:
            return lambda: Answer(Unsupported(reason), Unsupported(reason))
        dialect = DIALECTS[self.name]
        guarded(definitions(program, self.name), f"<program of {self.name}>", dialect.alias, ())
        self._give(render_source(program, self.name, self._needs_start(program), not gradient_alone))
        return lambda: self._answered(program, gradient_alone)

    def _needs_start(self, program: Program) -> bool:
        """Whether the package is to be started again before this program."""
        line = start_line(program, self.name)
        alive = self._process is not None and self._process.poll() is None
        if alive and line == self._start and self._served < MANY:
            self._served += 1
            return False
        self._start, self._served = line, 0
        return True

    def _answered(self, program: Program, gradient_alone: bool) -> Answer:
        found = self._take()
        return found if isinstance(found, Answer) else read_answer(program, found, gradient_alone)

    def ask(self, text: str) -> Answer | dict[str, Any]:
        """What the text prints; an Answer where the process did not live to say it."""
        self._start = ""
        self._give(text)
        return self._take()

    def _give(self, text: str) -> None:
        process = self._started()
        assert process.stdin
        try:
            process.stdin.write(json.dumps(text) + "\n")
            process.stdin.flush()
        except OSError:  # it ended: who takes the answer finds none
            pass

    def _take(self) -> Answer | dict[str, Any]:
        process = self._process
        assert process and process.stdout
        try:
            if not select.select([process.stdout], [], [], self.limit)[0]:
                return self._lost(HUNG, f"no answer within {self.limit:.0f} s")
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return self._lost(DIED, f"the process ended with status {process.wait(10)}")
        found: dict[str, Any] = json.loads(line)
        if "died" in found:
            self._start = ""
            died = Trap(DIED, f"the process ended with status {found['died']}")
            return Answer(died, died)
        return found

    def _lost(self, kind: str, reason: str) -> Answer:
        self.close()
        return Answer(Trap(kind, reason), Trap(kind, reason))

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            pipe = subprocess.PIPE
            command = (*self.command, ARCH, DIALECTS[self.name].package)
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
            )
        return self._process

    def close(self) -> None:
        """End the process; the next program starts another."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # and the process that runs texts for it
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_answer(program: Program, found: Mapping[str, Any], gradient_alone: bool = False) -> Answer:
    """The outcomes in what a rendered file prints."""
    error = found.get("error")
    failed = None if error is None else _failure(error)
    forward, gradient = found.get("forward"), found.get("gradient")
    if (forward is None and not gradient_alone) or (gradient is None and failed is None):
        failed = failed or Trap("ValueError", "the file printed no result")
    if gradient_alone:
        failed = failed or Unsupported("only the gradient was asked for")
    arrays = {f.name: (f.storage, f.dtype.dtype) for f in program.fields}
    return Answer(
        failed if forward is None else Ok({n: _array(v, *arrays[n]) for n, v in forward.items()}),  # type: ignore[arg-type]
        failed if gradient is None else Ok({n + GRAD: _array(v, *arrays[n]) for n, v in gradient.items()}),  # type: ignore[arg-type]
    )


def _failure(error: str) -> Outcome:
    kind, _, message = error.partition(": ")
    said = message.lower()
    if kind.endswith(_DECLARED) or any(words in said for words in _REFUSING):
        return Unsupported(error.splitlines()[0])
    return Trap(OVERFLOW if any(words in said for words in _OVERFLOWS) else kind, message)


def _array(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    plain = [float.fromhex(v) if isinstance(v, str) else v for v in values]
    return np.array(plain, dtype).reshape(shape)
