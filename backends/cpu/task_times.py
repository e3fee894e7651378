"""This module measures the time of each task of one launch, by the clock that native code reads between tasks.

That clock runs evenly but at an unknown rate, so its readings are shares of the time of the launch, which the host has
measured. The time that a launch waits for code made on request (masked code, the pool) does not count for its tasks.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..codegen.layout import BlockLayout
from ..host.block import ArgumentBlock

_CURRENT = threading.local()


class TaskTimes:
    """Represent the times that the tasks of one launch took; `seconds` is the time of the whole native call."""

    def __init__(self, tasks: int) -> None:
        self._ticks = (ctypes.c_int64 * (1 + tasks))()
        self._made: dict[int, float] = {}
        self.seconds = 0.0

    @property
    def aside(self) -> float:
        """Return the seconds of the launch that were spent on compilation, not on tasks."""
        return sum(self._made.values())

    def around(self, launch: Callable[[int], int], block: ArgumentBlock, layout: BlockLayout) -> int:
        """Launch the block with time measurement and return its status code."""
        block.put(layout.laps_at, ctypes.addressof(self._ticks))
        outer, _CURRENT.laps = getattr(_CURRENT, "laps", None), self
        begin = time.perf_counter()
        try:
            return launch(block.address)
        finally:
            self.seconds = time.perf_counter() - begin
            _CURRENT.laps = outer
            block.put(layout.laps_at, 0)

    def by_task(self) -> list[float] | None:
        """Return the seconds of each task, or None where native code has no clock."""
        ticks = list(self._ticks)[1:]
        total = sum(ticks)
        if total <= 0:
            return None
        longest = max(range(len(ticks)), key=ticks.__getitem__)
        found = [self.seconds * count / total for count in ticks]
        for task, seconds in self._made.items():
            # The pool is made for a task that is not told, so its time is taken off the longest task.
            at = task if task >= 0 else longest
            found[at] = max(found[at] - seconds, 0.0)
        return found


@contextmanager
def measure_compilation(task: int) -> Iterator[None]:
    """Measure the time of compiling inside the `with` block, while a launch waits; `task` is -1 for the thread pool."""
    laps: TaskTimes | None = getattr(_CURRENT, "laps", None)
    begin = time.perf_counter()
    try:
        yield
    finally:
        if laps is not None:
            laps._made[task] = laps._made.get(task, 0.0) + time.perf_counter() - begin
