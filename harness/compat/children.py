"""Run a program in a process of its own and say in one line how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

_REASON = 160
"""Number of characters of a reason that a table shows."""


@dataclass(frozen=True)
class Ended:
    """Represent how a process ended: by its exit status and its output.

    Attributes:
        status: its exit status; negative for a signal, and None if it was stopped at its time limit.
        output: what it wrote to stdout and stderr.
    """

    status: int | None
    output: str

    @property
    def reason(self) -> str:
        """Return the reason why the process failed, in one line, or an empty text if it succeeded."""
        if self.status == 0:
            return ""
        if self.status is None:
            return "ran past the time limit"
        if self.status < 0:
            return f"ended by signal {signal.Signals(-self.status).name}"
        return last_error(self.output) or f"ended with status {self.status}"


def run(command: Sequence[str], limit: float, folder: Path | None = None, given: Mapping[str, str] = {}) -> Ended:
    """Run a command and wait for its end; at the time limit, stop it and the processes that it has started.

    A program that is given by a relative path is that of this process's working directory.

    Args:
        command: the program and its arguments.
        limit: the number of seconds that it may take.
        folder: the working directory.
        given: environment variables beside those of this process.
    """
    program = os.path.abspath(command[0]) if os.sep in command[0] else command[0]
    process = subprocess.Popen(
        [program, *command[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=folder,
        env={**_environment(), **given},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return Ended(None, process.communicate()[0])
    return Ended(process.returncode, output)


def _environment() -> dict[str, str]:
    """Return the environment of this process, in which programs may import the files beside them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def last_error(output: str) -> str:
    """Return the exception that a text of tracebacks shows last, or else its last line.

    The first lines of a message are joined, because the sentence of a message of stackgrad stands below the line with
    `file:line`.
    """
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.splitlines() if line.strip()]
    begin = max((number for number, line in enumerate(lines) if line.startswith("Traceback")), default=None)
    if begin is None:
        return shortened(lines[-1]) if lines else ""
    told = list(dropwhile(lambda line: line.startswith((" ", "Traceback")), lines[begin:]))
    return shortened(" ".join(told[:4]))


def shortened(text: str) -> str:
    """Return a text as one line, cut to the length for which a table has room."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _REASON else plain[: _REASON - 1] + "…"
