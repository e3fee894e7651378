"""Check the relation that adjoints are linear in the seed: grad(a s + b t) = a grad(s) + b grad(t), and grad(0) = 0.

The factors a and b are powers of two, and t holds small whole numbers. So the seeds are exact, and only roundings
inside the gradient can differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...testing.bounds import BoundedResult
from ...testing.outcome import Arrays, OkOutcome, attempt
from ...testing.rounding import seeded_generator
from ..fuzz.result import JudgedComparison
from .chain import LaunchChain, RelationExecutor
from .judging import RelationQuestion

A, B = 4.0, -0.5
"""Factors of the two seeds."""


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdict on the linearity of the gradient in its seed.

    Args:
        chain: A chain of the kernel.
        on: The executor that is checked.
        draw: Number that selects the second seed: zeros if odd (the whole gradient is then a multiple of the first),
            else small numbers.
        forward: Not used, because the relation is one of gradients.
    """
    if not chain.seeds:
        return
    question = RelationQuestion("reverse", "linear", on.name)
    given = chain.seeds
    other = {name: _other(name, seed, draw) for name, seed in given.items()}
    # The sum of exact seeds is exact, because the factors are powers of two.
    both = {name: np.asarray(A * seed + B * other[name], seed.dtype) for name, seed in given.items()}
    whole = attempt(lambda: chain.gradient(on, both))
    first, second = (attempt(lambda s=s: chain.gradient(on, s)) for s in (given, other))  # type: ignore[misc]
    parts = [o.arrays for o in (first, second) if isinstance(o, OkOutcome)]
    sides = OkOutcome(_sum(*parts)) if len(parts) == 2 else second if isinstance(first, OkOutcome) else first
    yield question.compare(
        whole,
        sides,
        (
            lambda: chain.gradient_bounds(both),
            lambda: _sum_bounds(chain.gradient_bounds(given), chain.gradient_bounds(other)),
        ),
    )


def _other(name: str, seed: np.ndarray, draw: int) -> np.ndarray:
    if draw % 2:
        return np.zeros_like(seed)
    return np.asarray(seeded_generator("seed", name).integers(-3, 4, seed.shape), seed.dtype)


def _sum(first: Arrays, second: Arrays) -> Arrays:
    """Return A·first + B·second for each array in double precision, where A and B are constants.

    The factors are powers of two, so only the sum rounds.
    """
    with np.errstate(all="ignore"):
        return {n: np.asarray(A * first[n].astype(np.float64) + B * second[n].astype(np.float64)) for n in first}


def _sum_bounds(first: BoundedResult, second: BoundedResult) -> BoundedResult:
    unit = float(np.finfo(np.float64).eps)
    sizes = {n: np.abs(A * first.arrays[n].astype(np.float64)) for n in first.errors}
    errors = {n: abs(A) * first.errors[n] + abs(B) * second.errors[n] + unit * sizes[n] for n in sizes}
    return replace(first, errors=errors, poisoned=first.poisoned or second.poisoned)
