"""Run `stackgrad fuzz --ir-text`: parse texts that are almost IR, and check that every error is one of stackgrad."""

from __future__ import annotations

import argparse
import random

from ..harness.tools.fuzz.text_case import text_of
from ..harness.tools.fuzz.text_loop import TextStatistics, fuzz_texts

SECONDS = 60.0
"""Seconds that a run takes unless told otherwise."""
MOST_SHOWN = 20
"""Number of findings that are printed."""


def run(given: argparse.Namespace) -> int:
    """Run the compiler on texts that are almost IR. Return 1 if one raised an error that is not stackgrad's, else 0."""
    seed = random.SystemRandom().randrange(1 << 40) if given.seed is None else given.seed
    seconds = SECONDS if given.seconds is None and given.cases is None else given.seconds
    found = fuzz_texts(seed, given.cases, seconds, given.processes)
    width = max(len(what) for what, _ in found.table())
    print("\n".join(f"{what.ljust(width)}  {much}" for what, much in found.table()))
    show(found)
    return 1 if found.problems else 0


def show(found: TextStatistics) -> None:
    """Print the texts on which the compiler failed, each with the command-line options that repeat it."""
    for seed in sorted(found.problems)[:MOST_SHOWN]:
        print(f"\nFOUND: seed {seed}: {found.problems[seed]}")
    if len(found.problems) == 1:
        print(ascii(text_of(next(iter(found.problems)))))
