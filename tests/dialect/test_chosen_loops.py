# ruff: noqa: B007, RUF005 - loops that only count; the dialect's own way to join lists
"""A loop over one of two things, `for i in a if condition else b`: ranges, boxes, fields and unrolled items, nested."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.errors import KernelTypeError

pytestmark = pytest.mark.usefixtures("arch")


def numbers(n: int) -> sg.Field:
    """Return an f64 field with a gradient that holds 1, 2, ..., n."""
    made = sg.field(sg.f64, n, needs_grad=True)
    made.from_numpy(np.arange(1.0, n + 1))
    return made


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("unrolled", [True, False])
def test_unrolled_or_at_the_launch(unrolled: bool, rising: bool) -> None:
    x, loss, trips = numbers(3), sg.field(sg.f64, (), needs_grad=True), 4

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for a in sg.static(range(trips)) if sg.static(unrolled) else range(trips):
                v = v * v / 4.0 + (a if sg.static(rising) else -a)
            loss[None] += v

    with sg.ad.Tape(loss):
        k()
    v, slope = x.to_numpy(), np.ones(3)
    for a in range(trips):
        v, slope = v * v / 4 + (a if rising else -a), slope * v / 2
    np.testing.assert_allclose([loss[None], *x.grad.to_numpy()], [v.sum(), *slope], rtol=1e-14)


@pytest.mark.parametrize("by_element", [True, False])
def test_nested_bounds_from_elements_or_from_the_shape(by_element: bool) -> None:
    x, loss = numbers(4), sg.field(sg.f64, (), needs_grad=True)
    lengths = np.array([1, 3, 2], np.int32)

    @sg.kernel
    def k(n: sg.types.ndarray(dtype=sg.i32, ndim=1)):
        for i in range(n.shape[0] - 1) if not by_element else range(n[0], n.shape[0]):
            for j in range(n[i]) if by_element else range(n.shape[0]):
                part = 0.0
                for m in range(n[j]) if by_element else range(j):
                    part += x[m] * x[m]
                loss[None] += part

    loss.grad[None] = 1.0
    k(lengths)
    k.grad(lengths)
    visits = np.zeros(4)
    for i in range(lengths[0], 3) if by_element else range(2):
        for j in range(lengths[i] if by_element else 3):
            visits[: lengths[j] if by_element else j] += 1
    squares = x.to_numpy() ** 2
    assert loss[None] == visits @ squares
    assert x.grad.to_numpy().tolist() == (2 * visits * x.to_numpy()).tolist()


@pytest.mark.parametrize("choice", range(4))
def test_each_kind_of_loop(choice: int) -> None:
    x, y, grid = numbers(3), numbers(3), sg.field(sg.f64, (2, 3))
    y.fill(0.0)

    @sg.kernel
    def k():
        for i in (
            x
            if sg.static(choice == 0)
            else sg.ndrange((1, 3))
            if sg.static(choice == 1)
            else sg.static([2, 0])
            if sg.static(choice == 2)
            else reversed(range(1) if choice else range(2))
        ):
            y[i] += x[i]
        for I in sg.grouped(grid if sg.static(choice) else sg.ndrange(1, 2)):
            grid[I] += 1.0

    k()
    expected = ([1, 2, 3], [0, 2, 3], [1, 0, 3], [1, 0, 0])[choice]
    assert y.to_numpy().tolist() == expected
    assert grid.to_numpy().sum() == (6 if choice else 2)


@pytest.mark.parametrize("long", [True, False])
def test_comprehensions_and_functions(long: bool) -> None:
    x, y = numbers(4), sg.field(sg.f64, 2)

    @sg.func
    def added(n: sg.template()):
        total = 0.0
        for i in range(n) if sg.static(n > 2) else sg.static((3,)):
            total += x[i]
        return total

    @sg.kernel
    def k():
        y[0] = sum([x[i] for i in (range(3) if sg.static(long) else sg.static([3]))])
        y[1] = added(4 if sg.static(long) else 1)

    k()
    assert y.to_numpy().tolist() == ([6, 10] if long else [4, 4])


def test_a_choice_of_the_launch_is_refused() -> None:
    x = numbers(3)

    @sg.kernel
    def k(n: sg.i32):
        for i in range(3) if n > 1 else range(2):
            x[i] = 0.0

    @sg.kernel
    def bounds(n: sg.i32):
        for i in range(3 if n > 1 else 2):
            x[i] = 0.0

    with pytest.raises(KernelTypeError) as caught:
        k(2)
    (found,) = caught.value.diagnostics
    assert "only the launch knows which of the two this loop runs over" in found.reason
    assert "choose between bounds: `range(n if c else m)`" in found.cure
    assert found.span is not None and found.span.text.strip().startswith("for i in range(3) if n > 1")
    bounds(1)
    assert x.to_numpy().tolist() == [0, 0, 3], "the cure works"
