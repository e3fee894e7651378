# ruff: noqa: B007, E731 - loops that only count; lambdas with names are what is tested
"""Functions without a decorator, lambdas and plain methods that kernels call: values, gradients, traces, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
N = 4
A = np.linspace(0.5, 2.0, N)
FACTOR = 2.0


def scaled(v):
    return FACTOR * v


def power(v, exponent):
    result = v * 0.0 + 1.0
    for _ in range(exponent):
        result *= v
    return result


def larger(a, b):
    if a > b:
        return a
    return b


square, cube = lambda v: v * v, lambda v: v * v * v
shifted = lambda v, by=1.5: v + by
several = lambda v: (
    sg.sin(v) + 2.0 * v  # the text of a lambda may have several lines
)


class Spring:
    stiffness = 3.0

    def force(self, v):
        return -self.stiffness * v

    @staticmethod
    def half(v):
        return 0.5 * v


spring = Spring()


def fields() -> tuple[sg.Field, sg.Field]:
    x, y = (sg.field(sg.f64, N, needs_grad=True) for _ in range(2))
    x.from_numpy(A)
    y.grad.fill(1)
    return x, y


CASES = {
    "function": (scaled, lambda a: 2 * a, lambda a: 2 + 0 * a),
    "lambda": (square, lambda a: a * a, lambda a: 2 * a),
    "second lambda of a line": (cube, lambda a: a**3, lambda a: 3 * a**2),
    "lambda of several lines": (several, lambda a: np.sin(a) + 2 * a, lambda a: np.cos(a) + 2),
    "default of a lambda": (shifted, lambda a: a + 1.5, lambda a: 1 + 0 * a),
    "method": (spring.force, lambda a: -3 * a, lambda a: -3 + 0 * a),
    "static method": (spring.half, lambda a: a / 2, lambda a: 0.5 + 0 * a),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str) -> None:
    f, value, slope = CASES[name]
    x, y = fields()

    @sg.kernel
    def k():
        for i in x:
            y[i] = f(x[i])

    for _ in range(2):
        x.grad.fill(0)
        y.grad.fill(1)
        k()
        k.grad()
        np.testing.assert_allclose(y.to_numpy(), value(A), rtol=1e-15)
        np.testing.assert_allclose(x.grad.to_numpy(), slope(A), rtol=1e-14)


def test_loops_and_branches_of_functions_run_at_launch() -> None:
    x, y = fields()
    count = sg.field(sg.i32, N)
    count.from_numpy(np.array([0, 1, 2, 3], np.int32))

    @sg.kernel
    def k():
        for i in x:
            y[i] = larger(power(x[i], count[i]), 1.25)

    k()
    k.grad()
    powers = A ** np.arange(N)
    np.testing.assert_allclose(y.to_numpy(), np.maximum(powers, 1.25), rtol=1e-15)
    slopes = np.where(powers > 1.25, np.arange(N) * A ** np.maximum(np.arange(N) - 1, 0), 0)
    np.testing.assert_allclose(x.grad.to_numpy(), slopes, rtol=1e-14)


def test_lambda_in_an_argument_of_a_kernel() -> None:
    x, y = fields()

    @sg.kernel
    def k(f: sg.template()):
        for i in x:
            y[i] = f(x[i])

    k(lambda v: v + 1)
    np.testing.assert_array_equal(y.to_numpy(), A + 1)
    k(lambda v: v * 2)
    np.testing.assert_array_equal(y.to_numpy(), A * 2)


def test_a_changed_global_of_a_function_is_seen(monkeypatch) -> None:
    x, y = fields()

    @sg.kernel
    def k():
        for i in x:
            y[i] = scaled(x[i])

    k()
    monkeypatch.setattr(__import__("sys").modules[__name__], "FACTOR", 5.0)
    k()
    np.testing.assert_array_equal(y.to_numpy(), 5 * A)


def faulty(v):
    return v.nothing + 1


def test_a_mistake_in_a_function_names_its_line_and_the_call() -> None:
    x, y = fields()

    @sg.kernel
    def k():
        for i in x:
            y[i] = faulty(x[i])

    with pytest.raises(sg.KernelTypeError, match="has no attribute `nothing`") as caught:
        k()
    (found,) = caught.value.diagnostics
    assert found.span is not None and found.span.text == "    return v.nothing + 1"
    assert "in `faulty`, called at" in str(caught.value)


@pytest.mark.parametrize("function", [math.fsum, np.linalg.norm, dict.get, print.__self__.exec])
def test_functions_of_libraries_are_refused(function) -> None:
    x, y = fields()

    @sg.kernel
    def k():
        for i in x:
            y[i] = function(x[i])

    with pytest.raises(sg.KernelSyntaxError, match="`function`") as caught:
        k()
    assert caught.value.diagnostics[0].cure


def test_recursion_is_refused() -> None:
    x, y = fields()
    endless = lambda v: endless(v)

    @sg.kernel
    def k():
        for i in x:
            y[i] = endless(x[i])

    with pytest.raises(sg.KernelSyntaxError, match="calls itself"):
        k()
