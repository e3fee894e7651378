"""Captures: what is recorded of a launch, how much, and that nothing is while none is active."""

from __future__ import annotations

import pytest
import stackgrad as sg
from runtime_kernels import LOOKUP, SHIFT, SQUARE
from stackgrad.capture import capture
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.runtime.session import RUNTIME


def test_forward_and_reverse_launches() -> None:
    a, y = (sg.field(sg.f64, 2, needs_grad=True) for _ in range(2))
    a.fill(3)
    square = sg.kernel_from_text(SQUARE)
    with capture() as found:
        square(a=a, y=y)
        y.grad.fill(1)
        square.grad(a=a, y=y)
    forward, reverse = found.launches
    assert forward.kernel == reverse.kernel == parse_kernel(SQUARE)
    assert (forward.kind, reverse.kind) == ("forward", "reverse")
    assert set(forward.before) == {"a", "y", "a.grad", "y.grad"} == set(reverse.after)
    assert forward.before["y"].tolist() == [0, 0] and forward.after["y"].tolist() == [9, 9]
    assert reverse.before["y.grad"].tolist() == [1, 1] and reverse.after["a.grad"].tolist() == [6, 6]
    a.fill(0)
    assert forward.before["a"].tolist() == [3, 3], "copies, not views"


def test_scalars_and_limit() -> None:
    a = sg.field(sg.f64, 2, needs_grad=True)
    shift, other = sg.kernel_from_text(SHIFT), sg.kernel_from_text(SHIFT)
    with capture(limit=2) as found:
        for by in (1.0, 2.0, 3.0):
            shift(a=a, by=by)
        other(a=a, by=4.0)
    assert [launch.scalars["by"] for launch in found.launches] == [1, 2, 4]
    assert a[0] == 10


def test_nothing_is_recorded_outside() -> None:
    a = sg.field(sg.f64, 2, needs_grad=True)
    shift = sg.kernel_from_text(SHIFT)
    with capture() as found:
        pass
    shift(a=a, by=1.0)
    assert found.launches == [] and RUNTIME.capture is None


def test_launches_that_raise_are_recorded_with_the_error() -> None:
    a = sg.field(sg.f64, 2)
    with capture() as found, pytest.raises(sg.OutOfBounds):
        sg.kernel_from_text(LOOKUP)(a=a, at=5)
    assert "OutOfBounds" in (found.launches[0].error or "")


def test_tapes_are_captured_too() -> None:
    a, loss = sg.field(sg.f64, 1, needs_grad=True), sg.field(sg.f64, 1, needs_grad=True)
    a.fill(3)
    with capture() as found, sg.ad.Tape(loss):
        sg.kernel_from_text(SQUARE)(a=a, y=loss)
    assert [launch.kind for launch in found.launches] == ["forward", "reverse"]
    assert found.launches[1].after["a.grad"].tolist() == [6]


def test_captures_do_not_nest() -> None:
    with capture(), pytest.raises(sg.UsageError, match="already"), capture():
        pass
    assert RUNTIME.capture is None
