"""The Taylor order tells right derivatives from wrong ones, also near kinks, noise and the edge of a domain."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from stackgrad.harness.testing.oracles.taylor import taylor_order

ZERO, ONE = np.zeros(()), np.ones(())


def canceling(t: float) -> float:
    """sin, with a rounding error far above eps |f|."""
    return (1e6 + math.sin(t)) - 1e6


FUNCTIONS: list[tuple[Callable[[float], float], float, float, float]] = [
    # f of the distance along v, its derivative at 0, least and greatest order
    (math.exp, 1.0, 1.9, 2.1),
    (lambda t: math.log(1e-2 + t), 1e2, 1.9, 2.1),
    (lambda t: 1e12 * math.cos(1.0 + t), -1e12 * math.sin(1.0), 1.9, 2.1),
    (lambda t: math.exp(t + 1) - math.e, math.e, 1.9, 2.1),
    (canceling, 1.0, 1.8, math.inf),
    (lambda t: t**3, 0.0, 2.9, 3.1),
    (lambda t: 3 * t + 1, 3.0, math.inf, math.inf),
    (lambda t: t if t < 0.03 else 5.0, 1.0, math.inf, math.inf),
    (lambda t: math.sqrt(1.0 - 10.0 * t) if t < 0.1 else math.nan, -5.0, 1.9, 2.1),
    (lambda t: 0.0, 0.0, math.inf, math.inf),
]
WRONG = [
    (math.exp, 1.001),
    (math.exp, -1.0),
    (lambda t: 1e12 * math.cos(1.0 + t), 0.0),
    (lambda t: 3 * t + 1, 3.001),
    (lambda t: t if t < 0.03 else 5.0, 0.999),
    (lambda t: abs(t), -1.0),
    (lambda t: t**3, 1e-3),
]


@pytest.mark.parametrize(("f", "slope", "least", "greatest"), FUNCTIONS)
def test_right_derivatives(f: Callable[[float], float], slope: float, least: float, greatest: float) -> None:
    assert least <= taylor_order(lambda t: f(float(t)), ZERO, ONE, slope) <= greatest


@pytest.mark.parametrize(("f", "slope"), WRONG)
def test_wrong_derivatives(f: Callable[[float], float], slope: float) -> None:
    assert taylor_order(lambda t: f(float(t)), ZERO, ONE, slope) == pytest.approx(1.0, abs=0.1)


def test_a_jump_at_the_point() -> None:
    assert taylor_order(lambda t: float(t > 0), ZERO, ONE, 0.0) == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("slope", [math.nan, math.inf])
def test_what_is_not_finite(slope: float) -> None:
    assert math.isnan(taylor_order(lambda t: float(t), ZERO, ONE, slope))
    assert math.isnan(taylor_order(lambda t: math.nan, ZERO, ONE, 1.0))


def test_directions_in_many_dimensions() -> None:
    x, v = np.array([[0.3, 1.0], [-2.0, 0.5]]), np.array([[1.0, -1.0], [0.5, 2.0]])
    gradient = np.cos(x)
    assert taylor_order(lambda y: float(np.sin(y).sum()), x, v, float(np.vdot(gradient, v))) > 1.9
    assert taylor_order(lambda y: float(np.sin(y).sum()), x, v, float(np.vdot(gradient, v)) + 0.1) < 1.2
