"""Test kernels under `no_grad`: they are constant to tapes and forward mode, like a `no_grad` function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

V = np.array([1.0, 2.0, 3.0])


class Program:
    """Represent a program x -> y = x^2 -> loss, with kernels in between some of which are constant."""

    def __init__(self) -> None:
        x, y, loss = (sg.field(sg.f64, k, needs_grad=True) for k in (3, 3, ()))
        self.x, self.y, self.loss = x, y, loss
        x.from_numpy(V)

        @sg.kernel
        def square():
            for i in x:
                y[i] = x[i] ** 2

        @sg.kernel
        def total():
            for i in y:
                loss[None] += y[i]

        @sg.kernel
        def add(by: sg.f64):
            for i in x:
                loss[None] += by * x[i]

        @sg.kernel
        def overwrite(by: sg.f64):
            for i in range(2):
                y[i] = by * x[i]

        self.square, self.total, self.add, self.overwrite = square, total, add, overwrite

    def gradients(self, *calls: Callable[[], Any]) -> list[list[float]]:
        """Return the gradients of the loss by x and y, after these calls under a tape."""
        with sg.ad.Tape(self.loss):
            for call in calls:
                call()
        return [self.x.grad.to_numpy().tolist(), self.y.grad.to_numpy().tolist()]

    def tangent(self, *calls: Callable[[], Any]) -> float:
        """Return the tangent of the loss along ones at x, after these calls in forward mode."""
        self.loss[None] = 0.0
        with sg.ad.FwdMode(self.loss, self.x, seed=np.ones(3)):
            for call in calls:
                call()
        return float(self.loss.dual[None])


@pytest.fixture
def p(arch: str) -> Program:
    return Program()


# ---- the decorator --------------------------------------------------------------------------------------------------


def test_a_launch_is_not_recorded(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    assert p.gradients(p.square, p.total, lambda: look(5.0))[0] == [2, 4, 6]
    assert p.loss[None] == 14 + 5 * 6
    assert p.gradients(p.square, p.total, lambda: p.add(5.0))[0] == [7, 9, 11], "the kernel itself keeps its gradient"


def test_both_orders(p: Program) -> None:
    x, loss = p.x, p.loss

    @sg.ad.no_grad
    @sg.kernel
    def above():
        for i in x:
            loss[None] += 5.0 * x[i]

    @sg.kernel
    @sg.ad.no_grad
    def below():
        for i in x:
            loss[None] += 5.0 * x[i]

    @sg.kernel(pure=True)
    @sg.ad.no_grad
    def with_options():
        for i in x:
            loss[None] += 5.0 * x[i]

    for look in (above, below, with_options, sg.ad.no_grad(above)):
        assert isinstance(look, sg.Kernel) and look.__name__ in ("above", "below", "with_options")
        assert p.gradients(p.square, p.total, look)[0] == [2, 4, 6]
        look.grad()
        assert p.x.grad.to_numpy().tolist() == [2, 4, 6]
        assert p.tangent(p.square, p.total, look) == 12


def test_a_wrapper_between_is_no_part_of_it() -> None:
    """What another decorator copied from a function of `no_grad` is not taken for that function."""
    import functools

    @sg.ad.no_grad
    def inner():
        pass

    @functools.wraps(inner)
    def outer():
        pass

    assert not sg.kernel(outer).is_constant and sg.kernel(inner).is_constant


@sg.data_oriented
class Model:
    def __init__(self, p: Program, rate: float) -> None:
        self.x, self.loss, self.rate = p.x, p.loss, rate

    @sg.ad.no_grad
    @sg.kernel
    def above(self):
        for i in self.x:
            self.loss[None] += self.rate * self.x[i]

    @sg.kernel
    @sg.ad.no_grad
    def below(self, by: sg.f64):
        for i in self.x:
            self.loss[None] += self.rate * by * self.x[i]

    @sg.kernel
    def plain(self):
        for i in self.x:
            self.loss[None] += self.rate * self.x[i]


def test_methods(p: Program) -> None:
    for rate in (5.0, 7.0):
        model = Model(p, rate)
        constant = sg.ad.no_grad(model.plain)
        for look in (model.above, lambda model=model: model.below(2.0), constant):
            assert p.gradients(p.square, p.total, look)[0] == [2, 4, 6]
            assert p.tangent(p.square, p.total, look) == 12
        assert p.gradients(model.plain)[0] == [rate] * 3
        model.above.grad()
        model.below.grad(2.0)
        constant.grad()
        assert p.x.grad.to_numpy().tolist() == [rate] * 3


# ---- what it is to a tape -------------------------------------------------------------------------------------------

SEQUENCES: dict[str, Callable[[Program, Any, Any], list[Callable[[], Any]]]] = {
    "added to": lambda p, add, write: [p.square, lambda: add(5.0), p.total],
    "ends adjoints of what it overwrites": lambda p, add, write: [p.square, lambda: write(3.0), p.total],
    "input of the rest": lambda p, add, write: [lambda: write(3.0), p.total],
    "between": lambda p, add, write: [p.square, p.total, lambda: write(3.0), p.total, p.square, p.total],
    "overwrites what a gradient reads": lambda p, add, write: [lambda: p.add(2.0), p.square, lambda: add(1.0), p.total],
    "alone": lambda p, add, write: [lambda: add(5.0), lambda: write(3.0)],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_is_what_a_function_around_it_is(p: Program, name: str) -> None:
    def functions(launch: Any) -> Any:
        return sg.ad.no_grad(lambda by: launch(by))

    found = []
    for make in (sg.ad.no_grad, functions):
        p.square()
        calls = SEQUENCES[name](p, make(p.add), make(p.overwrite))
        found.append((p.gradients(*calls), p.y.to_numpy().tolist(), p.tangent(*calls)))
    assert found[0] == found[1]


def test_launches_that_stand_ready_are_not_recorded_either(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    for _ in range(10):
        look(1.0)
    assert p.gradients(p.square, p.total, lambda: look(5.0))[0] == [2, 4, 6]
    p.loss[None] = 0.0
    look(1.0)
    assert p.loss[None] == 6.0


def test_arrays_as_arguments() -> None:
    x, loss = sg.ndarray(sg.f64, (3,), needs_grad=True), sg.ndarray(sg.f64, (1,), needs_grad=True)
    x.from_numpy(V)

    @sg.kernel
    def energy(x: sg.types.ndarray(sg.f64, 1), loss: sg.types.ndarray(sg.f64, 1)):
        for i in x:
            loss[0] += x[i] ** 2

    @sg.ad.no_grad
    @sg.kernel
    def look(x: sg.types.ndarray(sg.f64, 1), loss: sg.types.ndarray(sg.f64, 1), by: sg.f64 = 5.0):
        for i in x:
            loss[0] += by * x[i]

    with sg.ad.Tape(loss):
        energy(x, loss)
        look(x, loss, by=7.0)
        look(x, loss)
    assert x.grad.to_numpy().tolist() == [2, 4, 6] and loss[0] == 14 + 12 * 6
    look.grad(x, loss, by=7.0)
    assert x.grad.to_numpy().tolist() == [2, 4, 6]


def test_what_has_no_gradient_may_be_launched() -> None:
    """A kernel that a tape would refuse: its iterations are not independent."""
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    def step():
        for i in range(1, 3):
            x[i] += 0.0 * x[i - 1]

    @sg.kernel
    def energy():
        for i in x:
            loss[None] += x[i] ** 2

    x.from_numpy(V)
    with pytest.raises(sg.NotDifferentiable), sg.ad.Tape(loss):
        sg.kernel(step)()
    with sg.ad.Tape(loss):
        sg.ad.no_grad(sg.kernel(step))()
        energy()
    assert x.grad.to_numpy().tolist() == [2, 4, 6]


def test_results_are_constant(p: Program) -> None:
    """The host may read what such a kernel returns: it has no derivative to lose."""
    x = p.x

    @sg.ad.no_grad
    @sg.kernel
    def norm() -> sg.f64:
        total = 0.0
        for i in x:
            total += x[i] ** 2
        return total

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = p.gradients(p.square, lambda: p.add(norm()), p.total)
        assert p.tangent(p.square, lambda: p.add(norm()), p.total) == 12 + 3 * 14
    assert found[0] == [16, 18, 20]
    norm.grad()


def test_a_replayed_tape_launches_it_again(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    with sg.ad.Tape(p.loss) as tape:
        p.square()
        look(5.0)
        p.total()
    p.x.from_numpy(2 * V)
    tape.replay()
    assert p.x.grad.to_numpy().tolist() == [4, 8, 12] and p.loss[None] == 4 * 14 + 5 * 12


def test_inside_a_function_with_a_gradient_of_its_own(p: Program) -> None:
    look = sg.ad.no_grad(p.add)

    @sg.ad.grad_replaced
    def step():
        p.square()
        look(5.0)

    @sg.ad.grad_for(step)
    def step_grad():
        look.grad(5.0)
        p.square.grad()

    assert p.gradients(step, p.total)[0] == [2, 4, 6]


def test_validation_and_nested_tapes(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    outer = sg.field(sg.f64, (), needs_grad=True)
    with sg.ad.Tape(outer), sg.ad.Tape(p.loss, validation=True):
        p.square()
        look(5.0)
        p.total()
    assert p.x.grad.to_numpy().tolist() == [0, 0, 0], "the outer loss depends on nothing"
    with sg.ad.Tape(p.loss, validation=True):
        p.square()
        look(5.0)
        p.total()
    assert p.x.grad.to_numpy().tolist() == [2, 4, 6]


# ---- forward mode, and both -----------------------------------------------------------------------------------------


def test_jacobian_and_products(p: Program) -> None:
    look = sg.ad.no_grad(p.add)

    def run() -> None:
        p.square()
        look(5.0)
        p.total()

    ones = np.ones(3)
    np.testing.assert_allclose(sg.ad.jacobian(p.loss, p.x, run), 2 * V)
    np.testing.assert_allclose(sg.ad.jvp(p.loss, p.x, run, ones), 12.0)
    np.testing.assert_allclose(sg.ad.vjp(p.loss, p.x, run, 1.0), 2 * V)
    np.testing.assert_allclose(sg.ad.hvp(p.loss, p.x, run, ones), 2 * ones)
    np.testing.assert_allclose(sg.ad.hessian(p.loss, p.x, run), 2 * np.eye(3))


# ---- the gradient by hand -------------------------------------------------------------------------------------------


def test_the_gradient_is_empty(p: Program) -> None:
    for kernel in (p.add, p.overwrite):
        look = sg.ad.no_grad(kernel)
        for array in (p.x, p.y, p.loss):
            array.grad.fill(1.0)
        before = [array.to_numpy().tolist() for array in (p.x, p.y, p.loss)]
        look.grad(5.0)
        assert all(np.all(array.grad.to_numpy() == 1.0) for array in (p.x, p.y, p.loss))
        assert [array.to_numpy().tolist() for array in (p.x, p.y, p.loss)] == before


def test_the_gradient_looks_at_its_arguments(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    with pytest.raises(sg.StackgradError, match="add"):
        look.grad()
    with pytest.raises(sg.StackgradError, match="add"):
        look.grad("five")

    @sg.ad.no_grad
    @sg.kernel
    def of_array(a: sg.types.ndarray(sg.f64, 1)):
        for i in a:
            a[i] = 0.0

    a = np.ones(3)
    of_array.grad(a)
    assert a.tolist() == [1.0] * 3
    with pytest.raises(sg.KernelTypeError, match="of_array") as caught:
        of_array.grad(np.ones((3, 3)))
    assert caught.value.diagnostics[0].span is not None and caught.value.diagnostics[0].cure


def test_there_is_no_lowered_gradient(p: Program) -> None:
    look = sg.ad.no_grad(p.add)
    with pytest.raises(sg.NotDifferentiable, match="decorated with no_grad") as caught:
        look.lowered_grad()
    (found,) = caught.value.diagnostics
    assert found.span is not None and found.span.file == __file__ and "without the decorator" in found.cure
