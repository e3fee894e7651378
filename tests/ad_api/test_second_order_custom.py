"""Test second derivatives of programs with constant writes, custom gradients and gradients called by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg

jax.config.update("jax_enable_x64", True)
X = np.array([0.3, -0.7, 1.1])


def close(found: Any, want: Any) -> None:
    assert np.shape(found) == np.shape(want)
    np.testing.assert_allclose(found, want, 1e-10, 1e-12)


class Cubes:
    """Represent a program y = x^3, loss = sum of y * x; between the two steps, a test may end a derivative."""

    def __init__(self) -> None:
        self.x, self.y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.x.from_numpy(X)
        x, y, loss = self.x, self.y, self.loss

        @sg.kernel
        def cube():
            for i in x:
                y[i] = x[i] ** 3

        @sg.kernel
        def total():
            for i in x:
                loss[None] += y[i] * x[i]

        self.cube, self.total = cube, total

    def hvp(self, *between: Callable[[], Any]) -> np.ndarray:
        def run() -> None:
            for call in between:
                call()
            self.total()

        found: np.ndarray = sg.ad.hvp(self.loss, self.x, run, np.ones(3))
        return found


def test_what_is_constant_to_a_tape_is_constant_to_its_tangents() -> None:
    c = Cubes()
    close(c.hvp(c.cube), 12 * X**2)
    close(c.hvp(sg.ad.no_grad(lambda: c.cube())), 0 * X)
    c.y.fill(0.0)
    close(c.hvp(c.cube, lambda: c.y.fill(2.0)), 0 * X)
    assert c.x.grad.to_numpy().tolist() == [2.0, 2.0, 2.0]


def test_a_replaced_gradient_takes_part() -> None:
    """The tangent is that of the gradient as written: here y = x^3 with the slope 5 x^2, so 2 · 5 x^2 · x + ..."""
    c = Cubes()
    x, y = c.x, c.y

    @sg.kernel
    def slope():
        for i in x:
            x.grad[i] += 5.0 * x[i] ** 2 * y.grad[i]

    @sg.ad.grad_replaced
    def cube():
        c.cube()

    @sg.ad.grad_for(cube)
    def _():
        slope()

    # gradient: y + 5 x^2 · x, whose tangent takes y for x^3
    close(c.hvp(cube), 3 * X**2 + 15 * X**2)


def sines(c: Cubes) -> Callable[[], Any]:
    """Return a function y = x sin x with a custom gradient that computes y again before reading it."""
    x, y = c.x, c.y

    @sg.kernel
    def begin():
        for i in x:
            y[i] = x[i]

    @sg.kernel
    def times_sine():
        for i in x:
            y[i] = y[i] * sg.sin(x[i])

    @sg.kernel
    def slope():
        for i in x:
            x.grad[i] += y.grad[i] * (sg.sin(x[i]) + y[i] * sg.cos(x[i]))
            y.grad[i] = 0.0

    @sg.ad.grad_replaced
    def sine():
        begin()
        times_sine()

    @sg.ad.grad_for(sine)
    def _():
        begin()
        slope()

    return sine


@pytest.mark.expensive
def test_a_gradient_that_runs_the_function_again() -> None:
    """It overwrites y, which is put back, with its tangent, for the gradients of launches before the call."""
    c = Cubes()
    y, loss = c.y, c.loss

    @sg.kernel
    def use():
        for i in y:
            loss[None] += y[i] ** 2

    sine = sines(c)
    want = jax.jvp(jax.grad(lambda x: (x * jnp.sin(x) * x).sum()), (X,), (np.ones(3),))[1]
    close(c.hvp(sine), want)
    want = jax.jvp(jax.grad(lambda x: (x**6 + x * jnp.sin(x) * x).sum()), (X,), (np.ones(3),))[1]
    close(c.hvp(c.cube, use, sine), want)


def test_gradients_called_by_hand() -> None:
    """`kernel.grad()` in forward mode: the adjoints that it leaves have tangents, and those of hand-made seeds none."""
    c = Cubes()
    c.cube()
    with sg.ad.FwdMode(c.x.grad, c.x, np.ones(3)) as mode:
        c.cube()
        c.y.grad.from_numpy(X)
        c.cube.grad()
    close(mode.jacobian(), X * 6 * X)
    close(c.x.grad.dual.to_numpy(), X * 6 * X)
    close(c.x.grad.to_numpy(), X * 3 * X**2)


def test_a_step_of_descent_has_a_tangent() -> None:
    """d(x - rate · x.grad)/dx through a tape and a kernel that reads the gradient."""
    c = Cubes()
    x = c.x

    @sg.kernel
    def descend():
        for i in x:
            x[i] -= 0.1 * x.grad[i]

    with sg.ad.FwdMode(x, x, np.ones(3)) as mode:
        for _ in range(2):
            with sg.ad.Tape(c.loss):
                c.cube()
                c.total()
            descend()

    def step(x: Any) -> Any:
        return x - 0.4 * x**3

    close(mode.jacobian(), jax.jvp(lambda x: step(step(x)), (X,), (np.ones(3),))[1])


def test_a_tape_run_again_inside() -> None:
    c = Cubes()
    with sg.ad.FwdMode(c.x.grad, c.x, np.ones(3)) as mode:
        with sg.ad.Tape(c.loss, retain=True) as tape:
            c.cube()
            c.total()
        tape.grad(seed=2.0)
    close(mode.jacobian(), 24 * X**2)
    with sg.ad.Tape(c.loss, retain=True) as tape:
        c.cube()
        c.total()
    with sg.ad.FwdMode(c.x.grad, c.x, np.ones(3)) as mode:
        with pytest.raises(sg.TapeError, match="outside of this forward mode"):
            tape.grad()
        tape.replay()
    close(mode.jacobian(), 12 * X**2)


def test_declared_constants() -> None:
    """An argument with needs_grad=False has neither adjoint nor tangent there."""
    x, loss = (sg.ndarray(sg.f64, shape, needs_grad=True) for shape in (3, ()))
    x.from_numpy(X)

    @sg.kernel
    def total(x: sg.types.ndarray(), y: sg.types.ndarray(needs_grad=False), loss: sg.types.ndarray()):
        for i in range(3):
            loss[None] += x[i] ** 2 * y[i]

    y = sg.ndarray(sg.f64, 3, needs_grad=True)

    @sg.kernel
    def copy(x: sg.types.ndarray(), y: sg.types.ndarray()):
        for i in range(3):
            y[i] = x[i]

    def run() -> None:
        copy(x, y)
        total(x, y, loss)

    close(sg.ad.hvp(loss, x, run, np.ones(3)), 2 * X)
