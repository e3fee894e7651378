"""This module runs pending units of a campaign until its end, on local processes or on the workers of a Dask cluster.

If a worker dies, another worker runs its unit. A unit that fails by itself ends the campaign; finished units are kept.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from ..fuzz.statistics import Statistics
from .plain_results import Plain, from_plain, total
from .store import CampaignStore
from .unit import run_apart

RETRIES = 3
"""Number of times that a unit is run again because its worker died."""


class WorkerPool(Protocol):
    """Represent a set of processes that run campaign units and return results in the order of completion."""

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """Run units and yield their results; start a unit whenever a process is free, until the iterator is closed.

        Args:
            text: the text of a spec.
            units: the numbers of units to run.
        """


class ProcessPool:
    """Represent a pool of processes on this machine, which run the units of a campaign."""

    def __init__(self, count: int) -> None:
        self.count = count

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """Run each unit in a process, watched by a thread, and yield the results."""
        with ThreadPoolExecutor(self.count) as threads:
            running: set[Future[Plain]] = {
                threads.submit(run_apart, text, unit) for unit in itertools.islice(units, self.count)
            }
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    running |= {threads.submit(run_apart, text, unit) for unit in itertools.islice(units, 1)}


class ClusterPool:
    """Represent a pool of workers of a Dask cluster, which run campaign units and have this package installed.

    The constructor raises ImportError if the extra `cluster` is not installed.
    """

    def __init__(self, address: str) -> None:
        from distributed import Client

        self.client: Any = Client(address)

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """Run units on the workers and yield the results; twice as many units are in flight as workers have threads."""
        from distributed import as_completed

        def submit(unit: int) -> Any:
            return self.client.submit(run_apart, text, unit, pure=False, retries=RETRIES)

        room = 2 * max(sum(self.client.nthreads().values()), 1)
        try:
            flow = as_completed([submit(unit) for unit in itertools.islice(units, room)])
            for future in flow:
                yield future.result()
                for unit in itertools.islice(units, 1):
                    flow.add(submit(unit))
        finally:
            self.client.close()


def run(
    store: CampaignStore,
    pool: WorkerPool,
    cases: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Statistics], None] = lambda statistics: None,
) -> Statistics:
    """Run pending units until the campaign has `cases` cases, or for `seconds` seconds.

    Args:
        store: the folder of the campaign.
        pool: where units run.
        cases: the number of cases at which to stop, or None.
        seconds: the time after which to stop, or None.
        progress: is called with the sum after each unit.

    Returns:
        The sum of all units, old and new.
    """
    end = None if seconds is None else time.monotonic() + seconds
    found = total((part for _, part in store.results()), store.spec.seed)
    done = found.cases

    def wanted() -> Iterator[int]:
        given = done
        for unit in store.pending():
            if cases is not None and given >= cases or end is not None and time.monotonic() >= end:
                return
            # Units under way count as done, so that no more units start than are needed.
            given += store.spec.size
            yield unit

    for result in pool.results(store.spec.to_json(), wanted()):
        store.put(result)
        found = total((found, from_plain(result)), store.spec.seed)
        progress(found)
    return found
