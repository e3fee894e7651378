"""Gradients on a GPU whose loops make more trips than a count on a CPU makes between two checks for signals.

A counting kernel is compiled as interruptible code, which on a CPU calls the host now and then. A GPU cannot.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue.trip_counts import by_iteration, by_while
from on_emulator import runtime
from stackgrad.backends.llvm.polls import ROUNDS

Make = Callable[[sg.Field, sg.Field, sg.Field], sg.Kernel]

TRIPS = (0, 1, ROUNDS + 1)
"""Trips of the loop of each iteration."""


def slope(value: float, trips: int) -> float:
    """Return the derivative of the sine that is applied `trips` times."""
    found = 1.0
    for _ in range(trips):
        found *= np.cos(value)
        value = np.sin(value)
    return found


def judge(make: Make) -> None:
    """Compare two launches of the gradient with the closed form."""
    x, y = (sg.field(sg.f64, len(TRIPS), needs_grad=True) for _ in range(2))
    trips = sg.field(sg.i64, len(TRIPS))
    trips.from_numpy(np.array(TRIPS))
    x.fill(0.5)
    k = make(x, y, trips)
    exact = np.array([slope(0.5, n) for n in TRIPS])
    for _ in range(2):
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        k.grad()
        found = x.grad.to_numpy()
        # Each trip rounds a sine, a cosine and a product, to within an ulp or two each.
        assert np.all(np.abs(found - exact) <= exact * (4 * ROUNDS * np.finfo(np.float64).eps))
    assert k.stats().countings >= 1


@pytest.mark.parametrize("make", [by_iteration, by_while])
def test_on_the_emulator(make: Make) -> None:
    with runtime(default_fp=sg.f64):
        judge(make)


@pytest.mark.cuda
@pytest.mark.parametrize("make", [by_iteration, by_while])
def test_on_a_card(make: Make) -> None:
    sg.init(arch=sg.cuda, default_fp=sg.f64)
    judge(make)


@pytest.mark.expensive
def test_a_loop_that_no_memory_holds_is_refused() -> None:
    with runtime(default_fp=sg.f64):
        x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
        trips = sg.field(sg.i64, 3)
        trips[1] = 10**11
        with pytest.raises(sg.DeviceError, match="the adstacks of one iteration need .* nothing was run"):
            by_iteration(x, y, trips).grad()
