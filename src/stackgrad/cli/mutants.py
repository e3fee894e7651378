"""Run `stackgrad fuzz --mutants`: plant known mistakes one at a time, and measure how soon the fuzzer finds each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..harness.testing.executors import JUDGED, present_backends
from ..harness.tools.fuzz.loop import fuzz
from ..harness.tools.fuzz.statistics import Statistics
from ..harness.tools.fuzz.worker import CaseRunner, Job, WorkerSetup
from ..harness.tools.model import Program
from ..harness.tools.mutants import MUTANTS, Mutant
from . import CommandError


def hunt(
    names: Sequence[str], seconds: float, cases: int | None, seed: int, backends: tuple[str, ...], processes: int = 1
) -> int:
    """Plant each mutant and fuzz until it is found, and print a line on it. Return 1 if one was not found.

    Raises CommandError for a name that no mutant has.

    Args:
        names: Names of mutants; none for all.
        seconds: Maximum of seconds for each mutant.
        cases: Maximum of cases for each mutant, or None.
        seed: Seed of the first case.
        backends: The backends to compare.
        processes: Number of cases at a time.
    """
    for name in names:
        if name not in MUTANTS:
            raise CommandError(f"there is no mutant {name!r}; known: {', '.join(MUTANTS)}")
    chosen = {name: MUTANTS[name] for name in names or MUTANTS}
    elsewhere = {mutant.on: _where(mutant.on) for mutant in chosen.values() if mutant.on}
    for name in [name for name, mutant in chosen.items() if mutant.on and not elsewhere[mutant.on]]:
        print(f"{name}: {chosen.pop(name).on} cannot run here")
    missed = []
    clean: dict[Program, bool] = {}
    width = max(map(len, chosen), default=0)
    for name, mutant in chosen.items():
        begin = time.monotonic()
        on = elsewhere.get(mutant.on, backends)
        found, ran = _hunt_one(mutant, seconds, cases, seed, on, processes, clean)
        took = f"{time.monotonic() - begin:6.1f} s, {ran:4} cases"
        if found.findings:
            print(f"{name.ljust(width)}  found   {took}  {found.findings[0].title[:80]}", flush=True)
        else:
            missed.append(name)
            print(f"{name.ljust(width)}  MISSED  {took}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found")
    return 1 if missed else 0


def _where(backend: str) -> tuple[str, ...]:
    """Return a tuple with the name of the executor that runs the backend of a mutant, or () if it cannot run here."""
    found, _ = present_backends([JUDGED if backend == "vulkan" else backend])
    return tuple(e.name for e in found)


def _hunt_one(
    mutant: Mutant,
    seconds: float,
    cases: int | None,
    seed: int,
    backends: tuple[str, ...],
    processes: int,
    clean: dict[Program, bool],
) -> tuple[Statistics, int]:
    """Return the statistics of the fuzzing run that found a mutant, or of the last run, and the number of cases.

    A case that also fails without the mutant proves nothing, and the search goes on with the next case. `clean` records
    which programs pass without mutants; this function adds to it.
    """
    first, deadline = seed, time.monotonic() + seconds
    while True:
        rest = None if cases is None else cases - (first - seed)
        left = max(deadline - time.monotonic(), 0.0)
        found = fuzz(
            left,
            rest,
            first,
            backends,
            processes,
            mutant=mutant.name,
            stop=lambda statistics: bool(statistics.findings),
        )
        ran = first - seed + found.cases
        if not found.findings:
            return found, ran
        # The program counts only if executors agree on it without the mutant.
        finding = found.findings[0]
        at = finding.seed or 0
        if finding.program not in clean:
            job = Job(program=finding.program, plan=finding.plan)
            clean[finding.program] = not CaseRunner(WorkerSetup(backends)).run(job).disagreements
        if clean[finding.program] or ran == cases or time.monotonic() > deadline:
            return (found if clean[finding.program] else Statistics(seed)), ran
        first = at + 1
