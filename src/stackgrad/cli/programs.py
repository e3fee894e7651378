"""Runs a user's program the way `python FILE` would, and sees what it launches and how it ends.

A program that defines a dict `CHECK` at its top is imported instead, and `main(**CHECK)` is called: its arguments for
a run that is short enough to be checked. Which of the two is decided by the text, so no program runs twice.
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
from ..harness.report import Finding
from ..session import reset
from . import CommandError
from .watch import watching

CHECK = "CHECK"
_NAME = "stackgrad_program"


@dataclass(frozen=True)
class Run:
    """One run of a program. totals: launches by (kernel, direction). error: how it ended, None if well."""

    launches: tuple[CapturedLaunch, ...]
    totals: Mapping[tuple[str, str], int]
    findings: tuple[Finding, ...]
    error: str | None


def run_program(path: Path, limit: int, stdout: TextIO | None = None) -> Run:
    """Run a program under watch; the runtime is reset before and after. stdout: where its prints go.

    Raises CommandError if there is no such file; what the program raises is in the result.
    """
    text = read(path)
    reset()
    try:
        with watching(limit) as watch, redirect_stdout(stdout or sys.stdout):
            error = _ending(path, text)
    finally:
        reset()
    return Run(tuple(watch.recordings()), dict(watch.totals), tuple(watch.findings), error)


def read(path: Path) -> str:
    """The text of a file. Raises CommandError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"cannot read {path}: {reason}") from None


def run_module(path: Path, stdout: TextIO | None = None) -> dict[str, Any]:
    """The globals of a program after it was imported, not run as a script. Raises what the program raises."""
    with _as_script(path), redirect_stdout(stdout or sys.stdout):
        return runpy.run_path(str(path), run_name=_NAME)


def _ending(path: Path, text: str) -> str | None:
    """Run to the end. Returns None, or how it ended instead."""
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
    if not isinstance(names[CHECK], dict) or not callable(names.get("main")):
        raise TypeError("a program with CHECK defines it as a dict of arguments of its function main")
    return names["main"]


def defines_check(text: str) -> bool:
    """Whether a program assigns CHECK at its top. False for text that does not parse: running it shows the mistake."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    targets = [t for s in body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in body if isinstance(s, ast.AnnAssign)]
    return any(isinstance(t, ast.Name) and t.id == CHECK for t in targets)


@contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """sys.argv and sys.path as a script finds them."""
    argv, folders = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [str(path)], [str(path.resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, folders


def describe(error: BaseException, path: Path) -> str:
    """An exception without our traceback: the last line of it, and the line of the program it came through."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, StackgradError) else _last_line(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if f.filename in (str(path), str(path.resolve()))]
    return f"{text}\n    raised through {path}:{lines[-1]}" if lines else text


def _last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
