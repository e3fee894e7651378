"""`stackgrad fuzz --mutants`: known mistakes are planted one at a time; how soon does the fuzzer find each?"""
from __future__ import annotations

import time

from ..harness.fuzz.loop import fuzz
from ..harness.mutants import MUTANTS


def hunt(seconds: float, cases: int | None, seed: int, backends: tuple[str, ...]) -> int:
    """One line for each mutant, in at most so many seconds or cases each. Returns 1 if any was not found.

    Mutants live in this process, so the cases run in it too.
    """
    missed = []
    width = max(map(len, MUTANTS))
    for name, mutant in MUTANTS.items():
        begin = time.monotonic()
        with mutant.planted():
            found = fuzz(seconds, cases, seed, backends, processes=0, stop=lambda statistics: bool(statistics.findings))
        took = f"{time.monotonic() - begin:6.1f} s, {found.cases:4} cases"
        if found.findings:
            print(f"{name.ljust(width)}  found   {took}  {found.findings[0].title[:80]}", flush=True)
        else:
            missed.append(name)
            print(f"{name.ljust(width)}  MISSED  {took}", flush=True)
    print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} found")
    return 1 if missed else 0
