"""The Taylor test: does a claimed directional derivative belong to a function, judged by the function alone?"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

STEPS = tuple(2.0**-k for k in range(3, 27))
_ROUNDING = 1024 * np.finfo(np.float64).eps


def taylor_order(
    f: Callable[[np.ndarray], float],
    x: np.ndarray,
    direction: np.ndarray,
    gradient_dot_direction: float,
    steps: Sequence[float] = STEPS,
) -> float:
    """The observed order p of the first Taylor remainder along v = `direction`, of x's shape:

        R(h) = |f(x + h v) - f(x) - h g.v| = O(h^p),   p = log(R(h) / R(h')) / log(h / h')

    for `gradient_dot_direction` = g.v. The right g.v gives p near 2 (more where the curvature along v vanishes), a
    wrong one p near 1, a jump at x near 0. f is evaluated in float64. Remainders of the size of the rounding error of
    f are dropped; p is the median slope over the three smallest steps that remain, so it is judged where the wrong
    linear term, if there is one, outweighs the curvature. Fewer than two remain only if f is linear along v to within
    rounding: then p is inf. NaN if f or g.v is not finite.
    """
    here = float(f(x))
    kept = []
    for h in sorted(steps, reverse=True):
        there, slope = float(f(x + h * direction)), h * gradient_dot_direction
        remainder = abs(there - here - slope)
        if not math.isfinite(remainder):
            return math.nan
        if remainder > _ROUNDING * max(abs(there), abs(here), abs(slope)):
            kept.append((h, remainder))
    slopes = [math.log(r / s) / math.log(h / k) for (h, r), (k, s) in zip(kept, kept[1:])]
    return float(np.median(slopes[-3:])) if slopes else math.inf
