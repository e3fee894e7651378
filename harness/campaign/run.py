"""Runs pending units of a campaign until its end: on processes here, or on the workers of a Dask cluster.

A unit that is lost with its worker is run by another one; one that fails by itself ends the campaign, which loses
nothing that was finished.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from ..fuzz.statistics import Statistics
from .plain import Plain, from_plain, total
from .store import Store
from .unit import run_apart

RETRIES = 3
"""Workers that a unit may outlive."""


class Pool(Protocol):
    """Where units run: gives the results of some, in any order, as they come."""

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """text: of a spec. Takes units as there is room for them. Closed when no more are wanted."""


class Processes:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """See `Pool`. Each unit is a process, watched by a thread."""
        with ThreadPoolExecutor(self.count) as threads:
            running: set[Future[Plain]] = {
                threads.submit(run_apart, text, unit) for unit in itertools.islice(units, self.count)
            }
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    running |= {threads.submit(run_apart, text, unit) for unit in itertools.islice(units, 1)}


class Cluster:
    """The workers of a Dask cluster, which have this package. Raises ImportError without the extra `cluster`."""

    def __init__(self, address: str) -> None:
        from distributed import Client

        self.client: Any = Client(address)

    def results(self, text: str, units: Iterator[int]) -> Iterator[Plain]:
        """See `Pool`. Twice as many units are on their way as there are threads of workers."""
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
    store: Store,
    pool: Pool,
    cases: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Statistics], None] = lambda statistics: None,
) -> Statistics:
    """Run pending units until the campaign has so many cases, or for so many seconds. Gives the sum of all units."""
    end = None if seconds is None else time.monotonic() + seconds
    found = total((part for _, part in store.results()), store.spec.seed)
    done = found.cases

    def wanted() -> Iterator[int]:
        given = done
        for unit in store.pending():
            if cases is not None and given >= cases or end is not None and time.monotonic() >= end:
                return
            given += store.spec.size
            yield unit

    for result in pool.results(store.spec.to_json(), wanted()):
        store.put(result)
        found = total((found, from_plain(result)), store.spec.seed)
        progress(found)
    return found
