"""Notify registered collectors, such as a profile, of each launch, its duration and its memory.

A launcher executes kernels by `execute`. Without a collector this is `Executable.run`; with collectors, the launch is
timed, as a whole and by task if the backend can, and the collectors are told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Draws, Executable, Scalars, Sizes
from ..forks import free_in_child
from .adstack_usage import SlabUse

Uses = Callable[[], Sequence[SlabUse]]
Tasks = Sequence[float] | None
"""The type of the seconds of each task; None where a backend cannot tell tasks apart."""


class Collector(Protocol):
    """Define the interface of an object that is notified of each launch, possibly from several threads at once."""

    def add(self, kernel: Kernel, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
        """Record one launch: its kernel, its seconds, the seconds of its tasks, and its adstack memory."""


_collectors: tuple[Collector, ...] = ()
_lock = free_in_child(threading.Lock())


def add_collector(collector: Collector) -> None:
    """Notify this collector of all launches from now on."""
    global _collectors
    with _lock:
        _collectors = (*_collectors, collector)


def remove_collector(collector: Collector) -> None:
    """Stop notifying this collector of launches."""
    global _collectors
    with _lock:
        _collectors = tuple(c for c in _collectors if c is not collector)


def execute(
    executable: Executable, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws, uses: Uses = tuple
) -> None:
    """Run an executable once and notify the collectors, unless the launch raises an exception.

    Args:
        executable: compiled kernel
        arrays: arrays by name
        scalars: scalar arguments by name
        sizes: sizes of the adstacks
        draws: key of the random numbers
        uses: returns the adstack memory of the launch; called after the launch
    """
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
