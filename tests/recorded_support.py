"""Recorded launches run once more on the reference, with the error bound of each element.

Nobody chooses a tolerance: bounds follow from the ulps of operations (docs/error_bounds.md). They are distances from
the exact result too, so that code of another shape, with roundings of its own, is within twice the bound.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from stackgrad.capture import CapturedLaunch
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.harness.bounds import Bounded, Verdict, judge, run_bounded

GRAD = ".grad"


def bounded(launch: CapturedLaunch, start: Bounded | None = None) -> Bounded:
    """What permitted executors make of it, on the memory that it found. start: the forward launch that left what a
    gradient reads; without it the memory is taken as exact.
    """
    if launch.kind == "forward":
        kernel = prepare_forward(launch.kernel).kernel
        return run_bounded(kernel, launch.before, launch.scalars, draws=launch.draws, precise=False)
    lowered = prepare_reverse(launch.kernel, taped=True)
    copies = {copy: launch.before.get(copy, launch.before[name]) for copy, name in lowered.before.items()}
    primal = {} if start is None else {k: a for k, a in start.arrays.items() if not k.endswith(GRAD)}
    errors = {} if start is None else {name: start.errors[name] for name in primal}
    memory = {**launch.before, **copies, **primal}
    return run_bounded(lowered.kernel, memory, launch.scalars, draws=launch.draws, errors=errors, precise=False)


def verdicts(known: Bounded, found: Mapping[str, np.ndarray], twice: bool = False) -> dict[str, Verdict]:
    """On arrays that are not exact by themselves. twice: found by code of another shape."""
    assert known.poisoned is None, known.poisoned
    return judge(known.arrays, found, known.errors, known.errors if twice else None)
