"""A kernel stores the bounds of its own loops, and something changes them between the launch and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

TRIPS = (3, 1, 2)
MAKERS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: np.zeros(len(TRIPS), np.int32),
    "ndarray": lambda: sg.ndarray(sg.i32, len(TRIPS)),
    "field": lambda: sg.field(sg.i32, len(TRIPS)),
}


@sg.kernel
def zero(n: sg.template()):
    for i in range(len(TRIPS)):
        n[i] = 0


@sg.kernel
def zero_array(n: sg.types.ndarray(dtype=sg.i32, ndim=1)):
    for i in range(len(TRIPS)):
        n[i] = 0


def by_host(n: Any) -> None:
    """Set the bounds to 0 from Python."""
    for i in range(len(TRIPS)):
        n[i] = 0


def by_launch(n: Any) -> None:
    """Set the bounds to 0 by another kernel."""
    (zero if isinstance(n, sg.Field) else zero_array)(n)


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def arch(request: pytest.FixtureRequest) -> None:
    """Start the runtime on one executor."""
    sg.init(arch=request.param, default_fp=sg.f64)


def problem(n: Any) -> tuple[sg.Field, sg.Field, Callable[[], None], Callable[[], None]]:
    """Return x, the loss, and functions that launch a kernel on `n` and its gradient."""
    x, loss = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 4.0, 8.0]))

    @sg.func
    def total(bounds: sg.template()):
        for i in range(len(TRIPS)):
            part = 1.0
            for j in range(bounds[i]):
                part *= x[j]
            loss[None] += part

    @sg.kernel
    def of_a_field(bounds: sg.template()):
        for i in range(len(TRIPS)):
            bounds[i] = 3 - i if i < 1 else i
        total(bounds)

    @sg.kernel
    def of_an_array(bounds: sg.types.ndarray(dtype=sg.i32, ndim=1)):
        for i in range(len(TRIPS)):
            bounds[i] = 3 - i if i < 1 else i
        total(bounds)

    kernel = of_a_field if isinstance(n, sg.Field) else of_an_array
    return x, loss, lambda: kernel(n), lambda: kernel.grad(n)


EXPECTED = [8 + 1 + 2, 4 + 1, 2, 0]
"""The derivatives of x0 x1 x2 + x0 + x0 x1 at 1, 2, 4."""


@pytest.mark.parametrize("change", [by_host, by_launch])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_tape_takes_the_bounds_that_the_launch_stored(kind: str, change: Callable[[Any], None]) -> None:
    n = MAKERS[kind]()
    x, loss, launch, _ = problem(n)
    with sg.ad.Tape(loss):
        launch()
        change(n)
    assert loss[None] == 8 + 1 + 2
    assert x.grad.to_numpy().tolist() == EXPECTED
    assert [n[i] for i in range(len(TRIPS))] == [0, 0, 0], "and the fields are as the program left them"


@pytest.mark.parametrize("kind", MAKERS)
def test_by_hand_the_bounds_are_those_in_memory(kind: str) -> None:
    n = MAKERS[kind]()
    x, loss, launch, gradient = problem(n)
    launch()
    loss.grad[None] = 1.0
    gradient()
    assert x.grad.to_numpy().tolist() == EXPECTED
    by_host(n)
    x.grad.fill(0.0)
    gradient()
    assert x.grad.to_numpy().tolist() == [0, 0, 0, 0], "no trip of the loops is left"
