"""Test functions and methods with custom gradients (`grad_replaced`), and functions without gradients (`no_grad`)."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


@sg.data_oriented
class Solver:
    """Represent a program x -> y = x^2 -> loss; an extra factor in the custom gradient of `step` shows its use."""

    def __init__(self) -> None:
        self.x = sg.field(sg.f64, 3, needs_grad=True)
        self.y = sg.field(sg.f64, 3, needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.calls: list[str] = []
        self.x.from_numpy(np.array([1.0, 2.0, 3.0]))

    @sg.kernel
    def square(self):
        for i in self.x:
            self.y[i] = self.x[i] ** 2

    @sg.kernel
    def total(self):
        for i in self.y:
            self.loss[None] += self.y[i]

    @sg.ad.grad_replaced
    def step(self, scale: float) -> None:
        self.calls.append("step")
        self.square()

    @sg.ad.grad_for(step)
    def step_grad(self, scale: float) -> None:
        self.calls.append("grad")
        self.square.grad()
        self.x.grad.from_numpy(scale * self.x.grad.to_numpy())

    @sg.ad.no_grad
    def frozen(self) -> None:
        self.square()


def test_methods() -> None:
    s = Solver()
    with sg.ad.Tape(s.loss):
        s.step(10.0)
        s.total()
    assert s.x.grad.to_numpy().tolist() == [20, 40, 60] and s.calls == ["step", "grad"]
    other = Solver()
    with sg.ad.Tape(other.loss):
        other.step(1.0)
        other.total()
    assert other.x.grad.to_numpy().tolist() == [2, 4, 6] and s.calls == ["step", "grad"]


def test_methods_without_gradient() -> None:
    s = Solver()
    with sg.ad.Tape(s.loss):
        s.frozen()
        s.total()
    assert s.loss[None] == 14 and s.x.grad.to_numpy().tolist() == [0, 0, 0]
    assert s.y.grad.to_numpy().tolist() == [1, 1, 1]


def test_indirect_calls() -> None:
    """A replaced function called by another function; one inside another is part of the outer one."""
    s = Solver()

    @sg.ad.grad_replaced
    def outer() -> None:
        s.step(5.0)

    @sg.ad.grad_for(outer)
    def outer_grad() -> None:
        s.step_grad(100.0)

    def call() -> None:
        outer()
        s.total()

    with sg.ad.Tape(s.loss):
        call()
    assert s.x.grad.to_numpy().tolist() == [200, 400, 600] and s.calls == ["step", "grad"]


def test_gradient_by_hand() -> None:
    s = Solver()
    s.step(1.0)
    s.y.grad.fill(1)
    Solver.step.grad(s, 3.0)
    assert s.x.grad.to_numpy().tolist() == [6, 12, 18]


def test_mistakes() -> None:
    @sg.kernel
    def k():
        pass

    with pytest.raises(sg.TapeError, match="k is a kernel"):
        sg.ad.grad_replaced(k)
    for decorator in (sg.ad.no_grad, sg.ad.grad_replaced):
        with pytest.raises(sg.TapeError, match="decorates functions, not int"):
            decorator(3)
    with pytest.raises(sg.TapeError, match="step has a gradient already"):
        sg.ad.grad_for(Solver.step)(lambda: None)
    with pytest.raises(sg.TapeError, match="k is not decorated with"):
        sg.ad.grad_for(k)
