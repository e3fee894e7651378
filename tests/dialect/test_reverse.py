# ruff: noqa: B007 - loops that only count
"""Statements of the dialect in reverse mode, with the values that calculus gives, on each executor."""
from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
A = np.array([1.0, -2.0, 0.5])


def gradient_of(body) -> np.ndarray:
    """x.grad after a tape over body(x, loss), which makes a kernel."""
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(A)
    k = body(x, loss)
    with sg.ad.Tape(loss):
        k()
    return x.grad.to_numpy()


def test_while_break_and_continue() -> None:
    def body(x, loss):
        @sg.kernel
        def k():
            for i in x:
                v = sg.abs(x[i])
                n = 0
                while v < 10.0:
                    n += 1
                    if n == 2:
                        continue
                    v = v * 3.0
                    if v > 7.0:
                        break
                loss[None] += v

        return k

    def value(v):
        v, n = abs(v), 0
        while v < 10.0:
            n += 1
            if n == 2:
                continue
            v *= 3
            if v > 7:
                break
        return v

    np.testing.assert_allclose(gradient_of(body), [value(v) / v for v in A])


def test_extreme_atomics() -> None:
    def extreme(x, loss):
        @sg.kernel
        def k():
            for i in x:
                sg.atomic_max(loss[None], x[i])

        return k

    assert gradient_of(extreme).tolist() == [1.0, 0.0, 0.0]


def test_a_product_by_atomics_is_not_differentiated() -> None:
    def body(x, loss):
        @sg.kernel
        def k():
            for i in x:
                sg.atomic_mul(loss[None], x[i])

        return k

    with pytest.raises(sg.NotDifferentiable, match="the gradient of an atomic mul needs the values it overwrote"):
        gradient_of(body)


def test_an_exchange_is_not_differentiated() -> None:
    def body(x, loss):
        @sg.kernel
        def k():
            for i in x:
                sg.atomic_exchange(loss[None], x[i])

        return k

    with pytest.raises(sg.NotDifferentiable, match="the gradient of an atomic exchange needs the values it overwrote"):
        gradient_of(body)


def test_results_of_kernels_under_a_tape() -> None:
    def body(x, loss):
        @sg.kernel
        def k() -> sg.f64:
            for i in x:
                loss[None] += x[i] ** 2
            return 2.0 * loss[None]

        return k

    np.testing.assert_allclose(gradient_of(body), 2 * A)


def test_steps_and_bits_have_the_gradient_zero() -> None:
    def body(x, loss):
        @sg.kernel
        def k():
            for i in x:
                mantissa, _exponent = sg.frexp(x[i])
                steps = sg.round(x[i]) + sg.floor(x[i]) + sg.ceil(x[i]) + int(x[i]) + x[i] // 0.3 + sg.sgn(x[i])
                loss[None] += steps * 0.0 + x[i] % 0.7 + mantissa

        return k

    np.testing.assert_allclose(gradient_of(body), 1 + np.frexp(A)[0] / A)


@pytest.mark.parametrize(("of", "into"), [("f32", "f64"), ("f64", "f32"), ("f16", "f32")])
def test_types_of_gradients(of, into) -> None:
    x = sg.field(getattr(sg, of), (), needs_grad=True)
    loss = sg.field(getattr(sg, into), (), needs_grad=True)

    @sg.kernel
    def k():
        loss[None] = x[None]

    with sg.ad.Tape(loss):
        k()
    assert x.grad[None] == 1.0 and x.grad.dtype == getattr(sg, of)


def test_dynamic_reads_and_writes_of_vectors_in_loops() -> None:
    def body(x, loss):
        @sg.kernel
        def k(n: sg.i32 = 6):
            for i in x:
                v = sg.Vector([x[i], 1.0, 0.5])
                for j in range(n):
                    v[(j + 1) % 3] += v[j % 3] * x[i]
                loss[None] += v[n % 3]

        return k

    def value(a):
        v = [a, 1.0, 0.5]
        for j in range(6):
            v[(j + 1) % 3] += v[j % 3] * a
        return v[0]

    step = 1e-6
    expected = [(value(a + step) - value(a - step)) / (2 * step) for a in A]
    np.testing.assert_allclose(gradient_of(body), expected, rtol=1e-8)
