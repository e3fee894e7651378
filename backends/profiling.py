"""Who is told how long launches took: nobody, but while a profile is being taken.

A launcher executes kernels by `execute`. With no collector that is `Executable.run`; with one, the launch is timed, as
a whole and by task if the backend can, and the collectors are told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ..compiler.ir.nodes import Kernel
from .base import Arrays, Draws, Executable, Scalars, Sizes
from .forks import free_in_child
from .usage import SlabUse

Uses = Callable[[], Sequence[SlabUse]]
Tasks = Sequence[float] | None
"""Seconds of each task; None where a backend cannot tell them apart."""


class Collector(Protocol):
    """Is told of launches. Several threads may tell at once."""

    def add(self, kernel: Kernel, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
        """A kernel ran for so long, and used so much adstack memory."""


_collectors: tuple[Collector, ...] = ()
_lock = free_in_child(threading.Lock())


def collect(collector: Collector) -> None:
    """Tell this collector of all launches from here on."""
    global _collectors
    with _lock:
        _collectors = (*_collectors, collector)


def dismiss(collector: Collector) -> None:
    """Tell it no longer."""
    global _collectors
    with _lock:
        _collectors = tuple(c for c in _collectors if c is not collector)


def execute(
    executable: Executable, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws, uses: Uses = tuple
) -> None:
    """Run once, told to the collectors; a launch that raises is not told. uses: asked afterwards."""
    told = _collectors
    if not told:
        executable.run(arrays, scalars, sizes, draws)
        return
    timed = getattr(executable, "run_timed", None)
    aside, tasks = 0.0, None
    begin = time.perf_counter()
    if timed is None:
        executable.run(arrays, scalars, sizes, draws)
    else:
        aside, tasks = timed(arrays, scalars, sizes, draws)
    seconds = time.perf_counter() - begin - aside
    used = uses()
    for collector in told:
        collector.add(executable.kernel, seconds, tasks, used)
