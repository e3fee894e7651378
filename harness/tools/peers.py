"""This module runs programs on peers: other systems that take the same program as source text, each in its own process.

Invariant: nothing of a peer is imported into this process. A process that dies or hangs costs its case and is started
again.
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..testing.launch import GRAD
from ..testing.outcome import OkOutcome, Outcome, TrapOutcome, UnsupportedOutcome
from .isolated_python import ALONE
from .model import Program, render_source
from .model.dialects import DIALECTS, NotInDialect
from .model.guard import checked_tree
from .model.source import definitions, start_line

PEERS = tuple(name for name in DIALECTS if name != "stackgrad")
SCRIPT = Path(__file__).with_name("peer_process.py")
ARCH = "cpu"
DIED, HUNG = "Crash", "Hang"
"""Kinds of the traps that stand for the end of a process and for a process that does not answer."""

PYTHON = "STACKGRAD_PEER_PYTHON"
"""Environment variable that names the interpreter in which the peers are installed, if this one does not have them."""

_DECLARED = ("CompilationError", "SyntaxError", "TypeError", "NotImplementedError", "NameError", "AttributeError")
"""Endings of the names of exceptions by which a peer says that it does not take a program."""

_REFUSING = (
    "not supported",
    "invalid program input for autodiff",
    "should be positive",
    "is unresolved after",
    "not allowed",
)
"""Words in messages by which a peer refuses a program, whatever the exception."""

_OVERFLOWS = ("stack overflow", "adstack overflow")
"""Words in messages by which a peer says that the saved values of a gradient did not fit."""

OVERFLOW = "Overflow"
"""Kind of the trap that stands for saved values that did not fit."""

MANY = 40
"""Number of programs that one start of a peer serves. A new start frees what the peer kept of each program."""


def peer_python() -> str:
    """Return the path of the Python interpreter that runs peers: the environment variable PYTHON, or this one."""
    return os.environ.get(PYTHON) or sys.executable


@cache
def installed(package: str, python: str) -> str | None:
    """Return the version of a package that an interpreter has, or None, without importing the package."""
    if python == sys.executable and not is_installed(package):
        return None
    ask = f"{ALONE}from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return found.stdout.strip() or None


@dataclass(frozen=True)
class PeerAnswer:
    """Represent a peer's answer for a program: the outcomes of its forward run and of its gradient.

    Attributes:
        forward: the outcome of the program.
        gradient: the outcome of its gradient, with adjoints of the initial contents by `x.grad`.
    """

    forward: Outcome
    gradient: Outcome


@dataclass
class Peer:
    """Represent a peer and the process in which it runs programs.

    One start of the package serves at most MANY programs, all of which start the package in the same way.

    Attributes:
        name: the name of the dialect of the peer.
        limit: the number of seconds that a program may take.
        command: the command that starts the process.
    """

    name: str
    limit: float = 60.0
    command: tuple[str, ...] = field(default_factory=lambda: (peer_python(), str(SCRIPT)))
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)
    _start: str = field(default="", repr=False)
    _served: int = field(default=0, repr=False)

    @property
    def absent(self) -> str | None:
        """Return a text that says why the peer is not available on this machine, or None if it is available."""
        package = DIALECTS[self.name].package
        if installed(package, self.command[0]):
            return None
        cure = f"pip install 'stackgrad[peers]', or name an interpreter that has it in {PYTHON}"
        return f"{package} is not installed; cure: {cure}"

    def supports(self, program: Program) -> str | None:
        """Return a text that says why the peer's dialect cannot express this program, or None if it can."""
        try:
            render_source(program, self.name)
        except NotInDialect as error:
            return str(error)
        return None

    def run(self, program: Program) -> PeerAnswer:
        """Run the program forward, then its gradient at the contents that the forward run left."""
        return self.begin(program)()

    def begin(self, program: Program, gradient_alone: bool = False) -> Callable[[], PeerAnswer]:
        """Start the run of a program on the peer. Return a function that waits for the peer's answer and returns it.

        Args:
            program: the program to run.
            gradient_alone: run only the gradient, at the contents that the program starts with.
        """
        reason = self.supports(program)
        if reason is not None:
            return lambda: PeerAnswer(UnsupportedOutcome(reason), UnsupportedOutcome(reason))
        dialect = DIALECTS[self.name]
        checked_tree(definitions(program, self.name), f"<program of {self.name}>", dialect.alias, ())
        self._give(render_source(program, self.name, self._needs_start(program), not gradient_alone))
        return lambda: self._answered(program, gradient_alone)

    def _needs_start(self, program: Program) -> bool:
        """Return True if the process of the peer must initialize its package again before this program."""
        line = start_line(program, self.name)
        alive = self._process is not None and self._process.poll() is None
        if alive and line == self._start and self._served < MANY:
            self._served += 1
            return False
        self._start, self._served = line, 0
        return True

    def _answered(self, program: Program, gradient_alone: bool) -> PeerAnswer:
        found = self._take()
        return found if isinstance(found, PeerAnswer) else read_answer(program, found, gradient_alone)

    def ask(self, text: str) -> PeerAnswer | dict[str, Any]:
        """Run a Python text in the process of the peer. Return the JSON object that it prints, or a trap."""
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

    def _take(self) -> PeerAnswer | dict[str, Any]:
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
        # The process still lives, but the fork that had started the package is gone.
        if "died" in found:
            self._start = ""
            died = TrapOutcome(DIED, f"the process ended with status {found['died']}")
            return PeerAnswer(died, died)
        return found

    def _lost(self, kind: str, reason: str) -> PeerAnswer:
        self.close()
        return PeerAnswer(TrapOutcome(kind, reason), TrapOutcome(kind, reason))

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            pipe = subprocess.PIPE
            command = (*self.command, ARCH, DIALECTS[self.name].package)
            self._process = subprocess.Popen(
                # The process leads a session of its own, so that `close` can end its forks too.
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        return self._process

    def close(self) -> None:
        """End the peer's process; the next program starts another one."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # and the process that runs texts for it
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_answer(program: Program, found: Mapping[str, Any], gradient_alone: bool = False) -> PeerAnswer:
    """Return the outcomes of a program and its gradient, read from the JSON output of a rendered script.

    Args:
        program: the program that was rendered.
        found: the JSON object that the file printed.
        gradient_alone: True if only the gradient was run.
    """
    error = found.get("error")
    failed = None if error is None else _failure(error)
    forward, gradient = found.get("forward"), found.get("gradient")
    if (forward is None and not gradient_alone) or (gradient is None and failed is None):
        failed = failed or TrapOutcome("ValueError", "the file printed no result")
    if gradient_alone:
        failed = failed or UnsupportedOutcome("only the gradient was asked for")
    arrays = {f.name: (f.storage, f.dtype.dtype) for f in program.fields}
    return PeerAnswer(
        failed if forward is None else OkOutcome({n: _array(v, *arrays[n]) for n, v in forward.items()}),  # type: ignore[arg-type]
        failed if gradient is None else OkOutcome({n + GRAD: _array(v, *arrays[n]) for n, v in gradient.items()}),  # type: ignore[arg-type]
    )


def _failure(error: str) -> Outcome:
    kind, _, message = error.partition(": ")
    said = message.lower()
    if kind.endswith(_DECLARED) or any(words in said for words in _REFUSING):
        return UnsupportedOutcome(error.splitlines()[0])
    return TrapOutcome(OVERFLOW if any(words in said for words in _OVERFLOWS) else kind, message)


def _array(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    plain = [float.fromhex(v) if isinstance(v, str) else v for v in values]
    return np.array(plain, dtype).reshape(shape)


def is_installed(package: str) -> bool:
    """Return True if the package itself is installed, and not only a module of stackgrad.compat in its place."""
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
