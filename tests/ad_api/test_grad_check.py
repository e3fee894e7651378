"""Test numeric checks of gradients: they pass if the gradient is right, and otherwise name the wrong element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg


class Program:
    """Represent a program z = exp(x), z = z/2 + sin x in place; loss = sum z^2."""

    def __init__(self, dtype: Any = sg.f64) -> None:
        self.x = sg.field(dtype, (2, 2), needs_grad=True, name="x")
        self.z = sg.field(dtype, (2, 2), needs_grad=True, name="z")
        self.loss = sg.field(dtype, (), needs_grad=True, name="loss")
        x, z, loss = self.x, self.z, self.loss
        x.from_numpy(np.array([[0.3, -0.7], [1.2, 0.1]], np.float32))

        @sg.kernel
        def start():
            for i, j in x:
                z[i, j] = sg.exp(x[i, j])

        @sg.kernel
        def step():
            for i, j in x:
                z[i, j] = z[i, j] * 0.5 + sg.sin(x[i, j])

        @sg.kernel
        def total():
            for i, j in z:
                loss[None] += z[i, j] ** 2

        self.start, self.step, self.total = start, step, total

    def run(self) -> None:
        self.start()
        self.step()
        self.total()


@pytest.mark.parametrize("dtype", [sg.f64, sg.f32], ids=str)
def test_right_gradients(dtype: Any) -> None:
    p = Program(dtype)
    before = p.x.to_numpy()
    report = sg.ad.grad_check(p.loss, p.x, p.run)
    assert report.ok and report.checked == 4 and str(report) == "4 of 4 elements agree"
    assert np.array_equal(p.x.to_numpy(), before) and p.z.to_numpy().sum() == 0


@pytest.mark.parametrize("dtype", [sg.f64, sg.f32], ids=str)
def test_on_a_tape(dtype: Any) -> None:
    p = Program(dtype)
    with sg.ad.Tape(p.loss, grad_check=[p.x]):
        p.run()
    assert p.x.grad.to_numpy().any() and p.z.to_numpy().any()


def wrong_gradient(p: Program) -> Any:
    """Return a step with a custom gradient that leaves out one element."""

    @sg.ad.grad_replaced
    def step() -> None:
        p.total()

    @sg.ad.grad_for(step)
    def step_grad() -> None:
        p.total.grad()
        p.z.grad[1, 0] = p.z.grad[1, 0] + 0.5

    return step


@pytest.mark.parametrize("dtype", [sg.f64, sg.f32], ids=str)
def test_a_wrong_element_is_named(dtype: Any) -> None:
    p = Program(dtype)
    step = wrong_gradient(p)

    def run() -> None:
        p.start()
        step()

    with pytest.raises(sg.ad.GradCheckError) as caught:
        sg.ad.grad_check(p.loss, p.x, run)
    (wrong,) = caught.value.report.mismatches
    x = 1.2
    assert (wrong.field, wrong.index) == ("x", (1, 0))
    assert wrong.numeric == pytest.approx(2 * np.exp(2 * x), rel=5e-3)
    assert wrong.gradient == pytest.approx(2 * np.exp(2 * x) + 0.5 * np.exp(x), rel=1e-3)
    assert "x[1, 0]: gradient" in str(caught.value)


def test_a_wrong_element_on_a_tape() -> None:
    p = Program()
    step = wrong_gradient(p)
    with pytest.raises(sg.ad.GradCheckError, match=r"x\[1, 0\]"), sg.ad.Tape(p.loss, grad_check=[p.x]):
        p.start()
        step()
    assert p.loss[None] == pytest.approx(float((np.exp(p.x.to_numpy()) ** 2).sum()))


def test_reports_without_raising() -> None:
    p = Program()
    step = wrong_gradient(p)
    report = sg.ad.grad_check(p.loss, [p.x], lambda: (p.start(), step()), raise_error=False)
    assert not report.ok and str(report).startswith("3 of 4 elements agree")
    loose = sg.ad.grad_check(p.loss, [p.x], lambda: (p.start(), step()), rtol=0.2)
    assert loose.ok


def test_random_numbers_are_the_same_in_every_evaluation() -> None:
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.fill(0.4)

    @sg.kernel
    def noisy():
        for i in x:
            loss[None] += sg.sin(x[i] + sg.randn())

    assert sg.ad.grad_check(loss, x, noisy).ok
    with sg.ad.Tape(loss, grad_check=[x]):
        noisy()


def test_host_writes_are_repeated() -> None:
    """What the host wrote between launches is written again; fields with a gradient may not be written."""
    p, factor = Program(), sg.field(sg.f64, ())

    @sg.kernel
    def weigh():
        for i, j in p.x:
            p.loss[None] += factor[None] * sg.sin(p.x[i, j])

    with sg.ad.Tape(p.loss, grad_check=[p.x]):
        factor[None] = 3.0
        weigh()
        factor[None] = 5.0
        weigh()
    np.testing.assert_allclose(p.x.grad.to_numpy(), 8 * np.cos(p.x.to_numpy()))
    assert factor[None] == 5
    with pytest.raises(sg.TapeError, match="the host writes field 'x'"), sg.ad.Tape(p.loss, grad_check=[p.x]):
        p.x[0, 0] = 1.0


def test_vectors_and_ndarrays() -> None:
    v = sg.Vector.field(2, sg.f64, shape=2, needs_grad=True, name="v")
    n, loss = sg.ndarray(sg.f64, 2, needs_grad=True), sg.ndarray(sg.f64, 1, needs_grad=True)
    v.from_numpy(np.array([[0.1, 0.2], [0.3, 0.4]]))
    n.fill(0.7)

    @sg.kernel
    def k(n: sg.types.ndarray(), loss: sg.types.ndarray()):
        for i in v:
            loss[0] += v[i].norm() * sg.cos(n[i])

    assert sg.ad.grad_check(loss, [v, n], lambda: k(n, loss)).checked == 6


def test_what_cannot_be_checked() -> None:
    p = Program()
    with pytest.raises(sg.TapeError, match="has no gradient to check"):
        sg.ad.grad_check(p.loss, sg.field(sg.f64, 3, name="c"), p.run)
    with pytest.raises(sg.TapeError, match="int cannot be checked"):
        sg.ad.grad_check(p.loss, 3, p.run)
