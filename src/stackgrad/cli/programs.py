"""Run a user's program the way `python FILE` would, and record what it launches and how it ends.

A program that defines a dict `CHECK` at its top is imported instead, and `main(**CHECK)` is called: the dict has
arguments for a run that is short enough to be checked. The text of the program decides this, so no program runs twice.
"""

from __future__ import annotations

import ast
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ..capture import CapturedLaunch
from ..compiler.errors import StackgradError
from ..harness.testing.report import ReportedFault
from ..runtime.session import reset
from . import CommandError
from .watch import watching

CHECK = "CHECK"
"""The name of the dict of arguments that a program may define."""
_NAME = "stackgrad_program"


@dataclass(frozen=True)
class ProgramRun:
    """Represent one run of a user's program: its recorded launches, their total numbers, and how it ended.

    Attributes:
        launches: The launches that were kept.
        totals: Number of launches by (kernel, direction).
        findings: Texts on faults that were noticed while the program ran, such as the first NaN.
        error: How the program ended, or None if it ended well.
    """

    launches: tuple[CapturedLaunch, ...]
    totals: Mapping[tuple[str, str], int]
    findings: tuple[ReportedFault, ...]
    error: str | None


def run_program(path: Path, limit: int, stdout: TextIO | None = None) -> ProgramRun:
    """Run a user's program, record its launches, and return the record. The runtime is reset before and after.

    Args:
        path: The file of the program.
        limit: Number of launches to keep for each kernel and direction.
        stdout: Where its prints go; None for standard output.

    Returns:
        The run, with the exception of the program if it raised one.

    Raises:
        CommandError: There is no such file.
    """
    text = read(path)
    reset()
    try:
        with watching(limit) as watch, redirect_stdout(stdout or sys.stdout):
            error = _ending(path, text)
    finally:
        reset()
    return ProgramRun(tuple(watch.recordings()), dict(watch.totals), tuple(watch.findings), error)


def read(path: Path) -> str:
    """Return the text of a program's file. Raise CommandError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"cannot read {path}: {reason}") from None


def run_module(path: Path, stdout: TextIO | None = None) -> dict[str, Any]:
    """Import a program as a module, not as a script, and return its globals. Raise its exceptions."""
    with _as_script(path), redirect_stdout(stdout or sys.stdout):
        return runpy.run_path(str(path), run_name=_NAME)


def _ending(path: Path, text: str) -> str | None:
    """Run a user's program to its end. Return a text that says how it failed, or None if it succeeded."""
    try:
        if defines_check(text):
            with _as_script(path):
                names = runpy.run_path(str(path), run_name=_NAME)
                _main(names)(**names[CHECK])
        else:
            with _as_script(path):
                runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ending:
        return None if ending.code in (None, 0) else f"it exited with status {ending.code}"
    except Exception as error:
        return describe(error, path)
    return None


def _main(names: Mapping[str, Any]) -> Any:
    """Return the function `main` of a program that assigns CHECK. Raise TypeError if it has no such function."""
    if not isinstance(names[CHECK], dict) or not callable(names.get("main")):
        raise TypeError("a program with CHECK defines it as a dict of arguments of its function main")
    return names["main"]


def defines_check(text: str) -> bool:
    """Return True if a program assigns the variable CHECK at its top level.

    A text that does not parse gives False: running it shows the mistake.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    targets = [t for s in body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in body if isinstance(s, ast.AnnAssign)]
    return any(isinstance(t, ast.Name) and t.id == CHECK for t in targets)


@contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """Set sys.argv and sys.path inside the `with` block as for a program that runs as a script."""
    argv, folders = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [str(path)], [str(path.resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, folders


def describe(error: BaseException, path: Path) -> str:
    """Return an exception as text, without the traceback through stackgrad.

    The text has the last line of the exception, and the line of the program that it came through.
    """
    text = f"{type(error).__name__}: {error}" if isinstance(error, StackgradError) else _last_line(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if f.filename in (str(path), str(path.resolve()))]
    return f"{text}\n    raised through {path}:{lines[-1]}" if lines else text


def _last_line(error: BaseException) -> str:
    """Return the class and message of an exception, as the last lines of its traceback show them."""
    return "".join(traceback.format_exception_only(error)).strip()
