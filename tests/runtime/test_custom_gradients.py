"""Functions that take no part in gradients, or bring their own: no_grad, grad_replaced, grad_for."""

from __future__ import annotations

from typing import Any

import pytest
import stackgrad as sg
from runtime_kernels import Program


def test_no_grad(p: Program) -> None:
    @sg.ad.no_grad
    def prepare(by: float) -> str:
        p.shift(by)
        return "done"

    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
        assert prepare(1.0) == "done"
        p.square()
    assert p.gradient() == [2, 4, 6]
    assert prepare(1.0) == "done"


def test_custom_gradient(p: Program) -> None:
    calls: list[tuple[Any, ...]] = []

    @sg.ad.grad_replaced
    def step(s: int, scale: float = 1.0) -> None:
        p.square()

    @sg.ad.grad_for(step)
    def step_grad(s: int, scale: float = 1.0) -> None:
        calls.append((s, scale))
        p.square_grad()

    step(9)
    with sg.ad.Tape(p.loss):
        step(3, scale=2.0)
        p.total()
    assert calls == [(3, 2.0)] and p.gradient() == [2, 4, 6]


def test_custom_gradients_may_rebuild_state(p: Program) -> None:
    """The gradient function overwrites a field that the gradient of an earlier launch reads."""

    @sg.ad.grad_replaced
    def step() -> None:
        pass

    @sg.ad.grad_for(step)
    def step_grad() -> None:
        p.a.fill(100)
        p.shift(1.0)

    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
        step()
        p.a[0] = 8.0
        step()
    assert p.gradient() == [2, 4, 6] and p.a.to_numpy().tolist() == [8, 2, 3]


def test_what_a_custom_gradient_launches_is_not_recorded(p: Program) -> None:
    @sg.ad.grad_replaced
    def step() -> None:
        p.square()

    @sg.ad.grad_for(step)
    def step_grad() -> None:
        p.square()
        p.square_grad()
        with pytest.raises(sg.TapeError, match="runs backward"):
            sg.ad.Tape(p.loss).__enter__()

    outer = sg.field(sg.f64, (), needs_grad=True)
    with sg.ad.Tape(outer), sg.ad.Tape(p.loss):
        step()
        p.total()
    assert p.gradient() == [0, 0, 0], "the outer tape recorded nothing and cleared what the inner one left"


def test_custom_gradient_misuse(p: Program) -> None:
    with pytest.raises(sg.TapeError, match="not decorated"):
        sg.ad.grad_for(lambda: None)

    @sg.ad.grad_replaced
    def lonely() -> None:
        pass

    with pytest.raises(sg.TapeError, match="lonely is grad_replaced, but has no gradient"), sg.ad.Tape(p.loss):
        lonely()
