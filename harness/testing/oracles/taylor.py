"""This module performs the Taylor test: it judges a directional derivative by values of the function only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

STEPS = tuple(2.0**-k for k in range(3, 31))
_ROUNDING = 1024 * float(np.finfo(np.float64).eps)
_NOISE = 16.0
_NOISIEST = 1e-6
_FALL = 64.0


def taylor_order(
    f: Callable[[np.ndarray], float],
    x: np.ndarray,
    direction: np.ndarray,
    gradient_dot_direction: float,
    steps: Sequence[float] = STEPS,
) -> float:
    """Return the observed order p of the first Taylor remainder along v = `direction`, of x's shape.

        R(h) = |f(x + h v) - f(x) - h g.v| = O(h^p),   p = log(R(h) / R(h')) / log(h / h')

    g.v is `gradient_dot_direction`. The right g.v gives p near 2 (more if the curvature along v vanishes), a wrong one
    p near 1, a jump at x p near 0. f is evaluated in float64. Steps that leave the domain of f (its value is not
    finite) are dropped, and so are remainders that rounding of f may have made: those near eps |f|, or near what the
    four smallest steps show if that is below 1e-6 |f|. p is the median slope over the four smallest remaining steps,
    where a wrong linear term outweighs the curvature: an error of g.v of 1e-4 of the curvature shows. The result is inf
    if f is linear along v near x, to within rounding, and NaN if f(x), g.v or f at every step is not finite.
    """
    here = float(f(x))
    remainders = []
    for h in sorted(steps, reverse=True):
        there, slope = float(f(x + h * direction)), h * gradient_dot_direction
        if math.isfinite(there - here - slope):
            remainders.append((h, abs(there - here - slope), max(abs(there), abs(here), abs(slope))))
    if not remainders:
        return math.nan
    noise = _NOISE * max(r for _, r, _ in remainders[-4:])
    noise = min(noise, _NOISIEST * max(scale for _, _, scale in remainders))
    kept = [(h, r, max(_ROUNDING * scale, noise)) for h, r, scale in remainders]
    kept = [(h, r, floor) for h, r, floor in kept if r > floor]
    # From far above rounding to below it in one step: a jump or kink lies between, and f is linear on this side.
    fell = bool(kept) and kept[-1][0] > remainders[-1][0] and kept[-1][1] > _FALL * kept[-1][2]
    if len(kept) < 2 or fell:
        return math.inf
    slopes = [math.log(r / s) / math.log(h / k) for (h, r, _), (k, s, _) in zip(kept, kept[1:])]
    return float(np.median(slopes[-3:]))
