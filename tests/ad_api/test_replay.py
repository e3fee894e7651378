"""Test a tape after its block: `grad()` repeats the backward pass, `replay()` the launches and the backward pass."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


class Descent:
    """Represent a program a_i = a_i * 2 in place; loss = sum (a_i - i)^2."""

    def __init__(self) -> None:
        self.a = sg.field(sg.f64, 3, needs_grad=True, name="a")
        self.b = sg.field(sg.f64, 3, needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        a, b, loss = self.a, self.b, self.loss

        @sg.kernel
        def double():
            for i in a:
                b[i] = a[i] * a[i]

        @sg.kernel
        def distance():
            for i in a:
                loss[None] += (b[i] - i) ** 2

        self.double, self.distance = double, distance

    def gradient_at(self, a: np.ndarray) -> np.ndarray:
        return 4 * a * (a * a - np.arange(3))


def test_replay_takes_the_gradient_at_the_present_content() -> None:
    p = Descent()
    p.a.from_numpy(np.array([1.0, 2.0, 3.0]))
    with sg.ad.Tape(p.loss) as tape:
        p.double()
        p.distance()
    for _ in range(30):
        before = p.a.to_numpy()
        np.testing.assert_allclose(p.a.grad.to_numpy(), p.gradient_at(before), 1e-12)
        p.a.from_numpy(before - 0.02 * p.a.grad.to_numpy())
        tape.replay()
    assert p.loss[None] < 0.5
    assert p.double.stats().launches == 31


def test_replay_of_functions_with_and_without_gradients() -> None:
    p = Descent()
    calls: list[str] = []

    @sg.ad.no_grad
    def prepare() -> None:
        calls.append("prepare")

    @sg.ad.grad_replaced
    def double() -> None:
        calls.append("double")
        p.double()

    @sg.ad.grad_for(double)
    def double_grad() -> None:
        calls.append("double_grad")
        p.double.grad()

    p.a.from_numpy(np.array([1.0, 2.0, 3.0]))
    with sg.ad.Tape(p.loss) as tape:
        prepare()
        double()
        p.distance()
    p.a.fill(0.5)
    tape.replay()
    assert calls == ["prepare", "double", "double_grad"] * 2
    np.testing.assert_allclose(p.a.grad.to_numpy(), p.gradient_at(np.full(3, 0.5)))


def test_grad_again() -> None:
    """The saved content of what the block overwrote is kept; another seed gives another pullback."""
    p = Descent()
    p.a.from_numpy(np.array([1.0, 2.0, 3.0]))
    with sg.ad.Tape(p.b, seed=[1.0, 1.0, 1.0], retain=True) as tape:
        p.double()
        p.a.fill(0)
    first = p.a.grad.to_numpy()
    np.testing.assert_allclose(first, [2, 4, 6])
    tape.grad()
    np.testing.assert_allclose(p.a.grad.to_numpy(), first)
    tape.grad(seed=[0.0, 1.0, 0.0])
    np.testing.assert_allclose(p.a.grad.to_numpy(), [0, 4, 0])
    assert p.a.to_numpy().tolist() == [0, 0, 0]
    p.a.fill(3)
    with pytest.raises(sg.TapeError, match="field 'a' was written"):
        tape.grad()


def test_grad_needs_the_state() -> None:
    p = Descent()
    with sg.ad.Tape(p.loss) as tape:
        p.double()
    with pytest.raises(sg.TapeError, match="retain=True"):
        tape.grad()


def test_gradients_accumulate_over_grad_if_asked() -> None:
    p = Descent()
    p.a.fill(1)
    p.a.grad.fill(0)
    with sg.ad.Tape(p.b, clear_gradients=False, seed=[1.0, 1.0, 1.0], retain=True) as tape:
        p.double()
    tape.grad()
    np.testing.assert_allclose(p.a.grad.to_numpy(), [4, 4, 4])


def test_nothing_to_replay_if_the_body_raised() -> None:
    p = Descent()
    tape = sg.ad.Tape(p.loss, retain=True)
    with pytest.raises(RuntimeError, match="mine"), tape:
        p.double()
        raise RuntimeError("mine")
    assert p.a.grad.to_numpy().tolist() == [0, 0, 0]
    for method in (tape.replay, tape.grad):
        with pytest.raises(sg.TapeError, match="before the tape's block has ended"):
            method()


def test_a_tape_of_another_runtime(arch: str) -> None:
    p = Descent()
    with sg.ad.Tape(p.loss, retain=True) as tape:
        p.double()
    sg.init(arch=arch)
    with pytest.raises(sg.TapeError, match="from before the last"):
        tape.replay()
