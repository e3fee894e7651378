"""The time of each task of one launch: events that native code has the stream record between tasks (host_code.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from ..words import address_of, words
from .driver import Driver


class Laps:
    """Events around the tasks of one launch. address: of the array of their handles."""

    def __init__(self, driver: Driver, events: list[int]) -> None:
        self._driver, self._events = driver, events
        self._words = words(events)

    @property
    def address(self) -> int:
        return address_of(self._words)

    def by_task(self) -> list[float]:
        """Seconds of each task, from the end of what ran before; all of them are over."""
        return [self._driver.elapsed(*pair) / 1000 for pair in pairwise(self._events)]


@contextmanager
def laps(driver: Driver, tasks: int) -> Iterator[Laps]:
    """Events for one launch of a kernel of so many tasks."""
    events = [driver.new_event() for _ in range(1 + tasks)]
    try:
        yield Laps(driver, events)
    finally:
        for event in events:
            driver.destroy_event(event)
