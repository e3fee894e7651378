"""The loop: cases by consecutive seeds until time or number is used up, in this process or in several others.

Invariant: case k of a run is that of seed + k, so a run with the same seed finds the same, however many processes.
"""
from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

from .plan import BACKENDS, plan_for
from .result import Result
from .statistics import Finding, Statistics
from .worker import Crash, Job, Runner, Sampler, Setup, Worker
from .worker import draw as default_sample

Progress = Callable[[Statistics], None]
HANG = 60.0
"""Seconds after which a case counts as hung."""


def fuzz(
    seconds: float | None = None,
    cases: int | None = None,
    seed: int | None = None,
    backends: tuple[str, ...] = BACKENDS,
    processes: int = 1,
    sample: Sampler = default_sample,
    hang: float = HANG,
    mutant: str = "",
    peers: tuple[str, ...] = (),
    progress: Progress = lambda statistics: None,
    stop: Callable[[Statistics], bool] = lambda statistics: False,
) -> Statistics:
    """Run cases for so many seconds, or so many cases, whichever ends first.

    seed: of the first case; None draws one. processes: 0 runs in this process, where a crash is not survived.
    mutant: a mistake to plant in the processes, by name; in this process, plant it yourself. peers: other systems to
    compare with, by name, all installed.
    progress: called after every case. stop: whether enough is found.
    """
    if seconds is None and cases is None:
        raise ValueError("fuzz needs an end: seconds or cases")
    first = random.SystemRandom().randrange(1 << 40) if seed is None else seed
    statistics = Statistics(first)
    begin = time.monotonic()
    seeds = iter(range(first, first + cases)) if cases is not None else itertools.count(first)
    setup = Setup(tuple(backends), sample, mutant, tuple(peers))
    results = _pooled(setup, processes, seeds, hang) if processes else _alone(setup, seeds)
    try:
        for job, found in results:
            statistics.elapsed = time.monotonic() - begin
            _count(statistics, setup, job, found)
            progress(statistics)
            if stop(statistics) or (seconds is not None and statistics.elapsed >= seconds):
                break
    finally:
        results.close()
    return statistics


def _count(statistics: Statistics, setup: Setup, job: Job, found: Result | Crash) -> None:
    if isinstance(found, Crash):
        statistics.crashes += 1
    else:
        statistics.add(found)
    if isinstance(found, Crash) or found.disagreements:
        judged, crash = ((), found.reason) if isinstance(found, Crash) else (found.judged, "")
        program, plan = setup.sample(job.seed), plan_for(job.seed, setup.backends, setup.peers)
        if isinstance(found, Result) and found.retried:
            from .retry import calmer, short

            program, plan = calmer(program), short(plan)
        statistics.findings.append(Finding(program, plan, judged, crash, job.seed))


Results = Iterator[tuple[Job, Result | Crash]]


def _alone(setup: Setup, seeds: Iterator[int]):  # type: ignore[no-untyped-def]
    runner = Runner(setup)
    for seed in seeds:
        job = Job(seed)
        yield job, runner.run(job)


def _pooled(setup: Setup, processes: int, seeds: Iterator[int], hang: float):  # type: ignore[no-untyped-def]
    workers = [Worker(setup, hang) for _ in range(processes)]
    try:
        busy = [w for w in workers if _give(w, seeds)]
        while busy:
            wait([w.connection for w in busy], timeout=0.2)
            for worker in list(busy):
                job = worker.job
                found = worker.poll()
                if found is None:
                    continue
                if not _give(worker, seeds):
                    busy.remove(worker)
                yield job, found
    finally:
        for worker in workers:
            worker.close()


def _give(worker: Worker, seeds: Iterator[int]) -> bool:
    """Start the next case; whether there is one."""
    seed = next(seeds, None)
    if seed is not None:
        worker.give(Job(seed))
    return seed is not None
