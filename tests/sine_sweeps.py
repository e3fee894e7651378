"""Define loops of sines whose first argument may be large and whose later arguments are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import stackgrad as sg

STRANGE = [0.3, -0.9, 1.5, 3.0, -3.1415927, 1e3, -4e4, 1e6, -3e38, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 7.0]

FEW = len(STRANGE) // 4
"""Elements that bounds may not decide: sines of large numbers, and of what a recurrence has made uncertain."""


def sweep(step: Any, until: bool = False) -> Any:
    """Return x, trips, y and a kernel that applies `step` to each x[i], trips[i] times."""
    x, y = (sg.field(sg.f32, len(STRANGE), needs_grad=True) for _ in range(2))
    trips = sg.field(sg.i32, ())

    def steps():
        for i in x:
            v = x[i]
            for k in range(trips[None]):
                v = step(v)
                if sg.static(until) and k >= 3:
                    break
            y[i] = v

    return x, trips, y, steps


@sg.func
def damped(v):
    return sg.sin(v) * 0.95 + 0.01


@sg.func
def both(v):
    return sg.cos(v) * 2.5 + sg.sin(v * 0.5)
