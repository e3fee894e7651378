"""Run cases of consecutive seeds until the time or their number is used up, in this process or in several others.

Invariant: case k of a run has the plan of seed + k, and a program that seed + k and earlier cases of its track decide
(see `guide`). So a run with the same seed finds the same, however many processes it uses.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import wait

from ..strategies import sample as default_sample
from .guide import TRACKS, Sampler, SeedTracks
from .interrupts import noted_interrupts
from .plan import BACKENDS
from .result import CaseResult
from .statistics import Finding, Statistics
from .worker import CaseProcess, CaseRunner, Crash, Job, WorkerSetup

Progress = Callable[[Statistics], None]
HANG = 60.0
"""Seconds after which a case counts as hung."""


def fuzz(
    seconds: float | None = None,
    cases: int | None = None,  # At least one of seconds and cases is given.
    seed: int | None = None,  # This is the seed of the first case; None draws it.
    backends: tuple[str, ...] = BACKENDS,
    processes: int = 1,  # 0 runs in this process, which does not survive a crash.
    sample: Sampler = default_sample,
    hang: float = HANG,
    mutant: str = "",  # This mistake is planted in the processes; in this process, plant it yourself.
    peers: tuple[str, ...] = (),  # All of these systems must be installed.
    thorough: bool = False,  # True lets backends run the gradient of every case.
    candidate: int | None = None,  # A finding names it with its seed, see `WorkerSetup`.
    progress: Progress = lambda statistics: None,  # It is called after every case.
    stop: Callable[[Statistics], bool] = lambda statistics: False,  # True ends the run.
    keep_interrupted: bool = False,  # True lets Ctrl-C end the run and not the caller, so that no finding is lost.
) -> Statistics:
    """Run cases until a number of seconds or a number of cases is reached, whichever comes first."""
    if seconds is None and cases is None:
        raise ValueError("fuzz needs an end: seconds or cases")
    first = random.SystemRandom().randrange(1 << 40) if seed is None else seed
    statistics = Statistics(first)
    seeds = iter(range(first, first + cases)) if cases is not None else itertools.count(first)
    setup = WorkerSetup(tuple(backends), sample, mutant, tuple(peers), thorough, candidate)
    results = _pooled(setup, processes, SeedTracks(seeds), hang) if processes else _alone(setup, SeedTracks(seeds))
    try:
        with noted_interrupts() as check_interrupt:
            for _ in _counted(results, statistics, setup, progress):
                check_interrupt()
                if stop(statistics) or (seconds is not None and statistics.elapsed >= seconds):
                    break
    except KeyboardInterrupt:
        if not keep_interrupted:
            raise
        statistics.interrupted = True
    finally:
        results.close()
    return statistics


def _counted(results: Results, statistics: Statistics, setup: WorkerSetup, progress: Progress) -> Iterator[None]:
    """Count the results in the statistics one by one, and report the progress after each."""
    begin = time.monotonic()
    for job, found in results:
        statistics.elapsed = time.monotonic() - begin
        _count(statistics, setup, job, found)
        progress(statistics)
        yield


def _count(statistics: Statistics, setup: WorkerSetup, job: Job, found: CaseResult | Crash) -> None:
    """Add a job's result to the statistics; a disagreement or the death of the process becomes a finding."""
    if isinstance(found, Crash):
        statistics.crashes += 1
    else:
        statistics.add(found)
    if isinstance(found, Crash) or found.disagreements:
        judged, crash = ((), found.reason) if isinstance(found, Crash) else (found.judged, "")
        chosen, plan = setup.choose(job.seed, job.reached), setup.plan(job.seed)
        program = chosen.program
        if isinstance(found, CaseResult) and found.retried:
            from .retry import calm_program, second_plan

            program, plan = calm_program(program), second_plan(plan)
        statistics.findings.append(Finding(program, plan, judged, crash, job.seed, chosen.candidate))


Results = Generator[tuple[Job, CaseResult | Crash], None, None]


def _alone(setup: WorkerSetup, tracks: SeedTracks) -> Results:
    runner = CaseRunner(setup)
    while (job := _next(tracks)) is not None:
        found = runner.run(job)
        tracks.end(job.seed, found.shapes)
        yield job, found


def _pooled(setup: WorkerSetup, processes: int, tracks: SeedTracks, hang: float) -> Results:
    """Yield the results of jobs that worker processes run, in the order in which they end."""
    workers = [CaseProcess(setup, hang) for _ in range(min(processes, TRACKS))]
    try:
        while busy := [w for w in workers if w.job is not None or _give(w, tracks)]:
            wait([w.connection for w in busy], timeout=0.2)
            for worker in busy:
                job = worker.job
                found = worker.poll()
                if found is None or job is None:
                    continue
                tracks.end(job.seed, found.shapes if isinstance(found, CaseResult) else frozenset())
                _give(worker, tracks)
                yield job, found
    finally:
        for worker in workers:
            worker.close()


def _give(worker: CaseProcess, tracks: SeedTracks) -> bool:
    """Start the next case on a worker and return True, or return False if no seed can start now."""
    job = _next(tracks)
    if job is not None:
        worker.give(job)
    return job is not None


def _next(tracks: SeedTracks) -> Job | None:
    taken = tracks.take()
    return None if taken is None else Job(taken[0], reached=taken[1])
