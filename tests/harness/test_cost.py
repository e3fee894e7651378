"""Costs: what is counted, and which kernels an oracle might have to run lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from launches import SINES, of, over, pointwise
from stackgrad.backends.base import Draws
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing.cost import DUAL_WORK, JAX_STATEMENTS, JAX_WORK, LaunchCost, may_serialize, measure_cost


def test_statements_and_lanes() -> None:
    kernel = pointwise("%9: T = sin %3")
    arrays = of(np.zeros(100))
    assert measure_cost(kernel, arrays, {}, Draws()) == LaunchCost(5, 100, False)
    assert measure_cost(pointwise(SINES), arrays, {}, Draws()).statements > 5 + 3 * 5


def test_memory_stays_as_it_is() -> None:
    arrays = of([1.0])
    measure_cost(pointwise("%9: T = sin %3"), arrays, {}, Draws())
    assert arrays["y"][0] == 0


@pytest.mark.parametrize(
    ("cost", "jax", "dual"),
    [
        (LaunchCost(10, 10, False), True, True),
        (LaunchCost(10, 10, True), True, True),
        (LaunchCost(JAX_STATEMENTS + 1, 1, False), False, True),
        (LaunchCost(JAX_STATEMENTS, JAX_WORK // JAX_STATEMENTS, False), True, False),
        (LaunchCost(JAX_STATEMENTS, JAX_WORK // JAX_STATEMENTS + 1, False), False, False),
        (LaunchCost(100, JAX_STATEMENTS, True), False, False),
        (LaunchCost(2, DUAL_WORK // 2, False), True, True),
    ],
)
def test_limits(cost: LaunchCost, jax: bool, dual: bool) -> None:
    assert (cost.jax_refusal() is None) is jax
    assert (cost.dual_refusal() is None) is dual


def _access(body: str) -> Kernel:
    return over("x: f64[1], m: f64[2], n: i32, at: i32[1]", "%3: f64 = const 1.0\n%4: i32 = const 1\n" + body)


@pytest.mark.parametrize(
    ("body", "serializes"),
    [
        ("%5: f64 = load x[%2]\nstore x[%2], %5", False),
        ("%5: f64 = load x[%0]\nstore x[%2], %5", True),
        ("%6: f64 = atomic add x[%0], %3", False),
        ("%6: f64 = atomic add x[%0], %3\nstore m[%2, %2], %6", True),
        ("%6: f64 = atomic add x[%0], %3\n%7: f64 = atomic max x[%0], %3", True),
        ("%6: f64 = atomic add x[%2], %3\n%7: f64 = atomic max x[%2], %3", False),
        ("%5: i32 = load at[%2]\nstore x[%5], %3", True),
        ("%5: f64 = load m[%0, %2]\nstore m[%4, %2], %5", False),
        ("%5: i32 = arg n\n%6: i32 = add %5, %4\n%7: f64 = load m[%5, %0]\nstore m[%6, %2], %7", False),
        ("%5: i32 = add %2, %4\n%6: f64 = load x[%5]\nstore x[%2], %6", True),
    ],
)
def test_lanes_that_may_meet(body: str, serializes: bool) -> None:
    assert may_serialize(_access(body).tasks[0]) is serializes
