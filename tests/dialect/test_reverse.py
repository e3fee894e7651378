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


@pytest.mark.parametrize("zero", [False, True])
def test_products_by_atomics(zero) -> None:
    """Into shared elements, from parallel iterations: factors of 0 are factors like others."""
    x, s = sg.field(sg.f64, 7, needs_grad=True), sg.field(sg.f64, 2, needs_grad=True)
    loss, a = sg.field(sg.f64, (), needs_grad=True), np.linspace(0.3, 2.1, 7)
    a[3] = 0.0 if zero else a[3]
    x.from_numpy(a)
    s.from_numpy(np.array([1.5, -0.5]))

    @sg.kernel
    def k():
        for i in x:
            s[i % 2] *= sg.sin(x[i])
            loss[None] += x[i] ** 2
        for i in s:
            loss[None] += (i + 1) * s[i]

    with sg.ad.Tape(loss):
        k()
    v, start = np.sin(a), [1.5, -0.5]
    others = [start[i % 2] * np.prod([v[j] for j in range(i % 2, 7, 2) if j != i]) for i in range(7)]
    expected = [2 * a[i] + (1 + i % 2) * others[i] * np.cos(a[i]) for i in range(7)]
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(s.grad.to_numpy(), [np.prod(v[0::2]), 2 * np.prod(v[1::2])], rtol=1e-12, atol=1e-14)


def test_products_and_exchanges_of_own_elements() -> None:
    """y *= x, then z takes y for what it was, in each iteration alone; and a product in a serial loop."""
    x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, 3, needs_grad=True)
    z, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(A)
    y.from_numpy(np.array([3.0, 4.0, 5.0]))
    z.from_numpy(np.array([7.0, 8.0, 9.0]))

    @sg.kernel
    def k():
        for i in x:
            old = sg.atomic_mul(y[i], x[i])
            before = sg.atomic_exchange(z[i], y[i] * old)
            loss[None] += z[i] + 10.0 * before
        for _ in range(1):
            for i in range(3):
                y[0] *= x[i]
            loss[None] += y[0]

    with sg.ad.Tape(loss):
        k()
    x0, x1, x2 = A
    assert loss[None] == pytest.approx(9 * x0 + 16 * x1 + 25 * x2 + 240 + 3 * x0 * x0 * x1 * x2)
    np.testing.assert_allclose(x.grad.to_numpy(), [9 + 6 * x0 * x1 * x2, 16 + 3 * x0**2 * x2, 25 + 3 * x0**2 * x1])
    np.testing.assert_allclose(y.grad.to_numpy(), [6 * x0 + x0 * x0 * x1 * x2, 8 * x1, 10 * x2])
    assert z.grad.to_numpy().tolist() == [10.0] * 3


def test_a_product_that_is_read_meanwhile() -> None:
    """Each iteration takes the product so far; under a tape, launch and gradient keep the order of points."""
    x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, 3, needs_grad=True)
    product, loss = sg.field(sg.f64, (), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(A)
    product[None] = 2.0

    @sg.kernel
    def k():
        for i in x:
            y[i] = sg.atomic_mul(product[None], x[i])
        for i in y:
            loss[None] += (i + 1) * y[i]

    with sg.ad.Tape(loss):
        k()
    x0, x1, _ = A
    np.testing.assert_allclose(y.to_numpy(), [2.0, 2 * x0, 2 * x0 * x1])
    np.testing.assert_allclose(x.grad.to_numpy(), [4 + 6 * x1, 6 * x0, 0.0], rtol=1e-13)
    assert product.grad[None] == pytest.approx(1 + 2 * x0 + 3 * x0 * x1)


def test_a_product_beside_random_numbers_has_no_gradient() -> None:
    def body(x, loss):
        @sg.kernel
        def k():
            for i in x:
                loss[None] *= x[i] + sg.random()

        return k

    with pytest.raises(sg.NotDifferentiable, match="a tape runs a parallel loop with an atomic mul on 'loss' serially"):
        gradient_of(body)


def test_an_exchange_between_iterations() -> None:
    """The last point stays; each takes what the one before it left, in the order of the points under a tape."""
    x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, 3, needs_grad=True)
    held, loss = sg.field(sg.f64, (), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(A)
    held[None] = 0.5

    @sg.kernel
    def k():
        for i in x:
            y[i] = sg.atomic_exchange(held[None], x[i] ** 2)
        for i in y:
            loss[None] += (i + 1) * y[i] ** 2
        loss[None] += 3.0 * held[None]

    with sg.ad.Tape(loss):
        k()
    x0, x1, x2 = A
    np.testing.assert_allclose(y.to_numpy(), [0.5, x0**2, x1**2])
    np.testing.assert_allclose(x.grad.to_numpy(), [8 * x0**3, 12 * x1**3, 6 * x2], rtol=1e-13)
    assert held.grad[None] == pytest.approx(1.0)


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
    assert x.grad[None] == 1.0 and x.grad.dtype == (sg.f32 if of == "f16" else getattr(sg, of))


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
