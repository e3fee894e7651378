"""This module measures the time of each task of one launch, by events between the tasks (host_code.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from ..words import address_of, words
from .driver import Driver


class TaskTimes:
    """Represent the CUDA events recorded around the tasks of one launch."""

    def __init__(self, driver: Driver, events: list[int]) -> None:
        self._driver, self._events = driver, events
        self._words = words(events)

    @property
    def address(self) -> int:
        """Return the address of the array of the events' handles."""
        return address_of(self._words)

    def by_task(self) -> list[float]:
        """Return the seconds of each task, measured from the event before it; the launch must be over."""
        return [self._driver.elapsed(*pair) / 1000 for pair in pairwise(self._events)]


@contextmanager
def task_events(driver: Driver, tasks: int) -> Iterator[TaskTimes]:
    """Create CUDA events for one launch of a kernel with `tasks` tasks, for the `with` block."""
    events = [driver.new_event() for _ in range(1 + tasks)]
    try:
        yield TaskTimes(driver, events)
    finally:
        for event in events:
            driver.destroy_event(event)
