"""Show the progress of a long run: in a terminal as a line that rich redraws, else by a plain line now and then."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..harness.tools.fuzz.statistics import Statistics

PLAIN_SECONDS = 10.0
"""Seconds between two plain lines."""


class Status:
    """Show a status line on the error stream while the `with` block runs; `show` updates it."""

    def __init__(self) -> None:
        self._live: Any = None
        self._shown = time.monotonic()

    def __enter__(self) -> Status:
        if sys.stderr.isatty() and find_spec("rich"):
            from rich.console import Console
            from rich.live import Live

            self._live = Live("starting", console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def show(self, statistics: Statistics) -> None:
        """Update the status line with these statistics."""
        if self._live is not None:
            self._live.update(statistics.line())
        elif time.monotonic() - self._shown >= PLAIN_SECONDS:
            self._shown = time.monotonic()
            print(statistics.line(), file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
