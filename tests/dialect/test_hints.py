"""Hints by which a program tells another compiler how to run a loop: accepted, and without effect on results."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def test_hints_change_nothing() -> None:
    x, y = sg.field(sg.f64, 5, needs_grad=True), sg.field(sg.f64, 5, needs_grad=True)
    x.from_numpy(np.arange(5.0))

    @sg.kernel
    def plain():
        for i in x:
            y[i] += x[i] ** 2

    @sg.kernel
    def hinted():
        sg.loop_config(block_dim=64)
        sg.block_local(x, y)
        sg.cache_read_only(x)
        for i in x:
            j = sg.loop_unique(i, covers=[y])
            y[sg.loop_unique(j)] += x[sg.assume_in_range(i, 2, -2, 3)] ** 2

    found = []
    for k in (plain, hinted):
        y.fill(0.0)
        x.grad.fill(0.0)
        y.grad.from_numpy(np.array([1.0, -2.0, 3.0, 0.5, 1.5]))
        k()
        k.grad()
        found.append((y.to_numpy(), x.grad.to_numpy()))
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0].tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]


def test_a_range_is_asserted_under_debug(arch: str) -> None:
    sg.init(arch=arch, debug=True)
    x = sg.field(sg.i32, 8)

    @sg.kernel
    def k(base: sg.i32, high: sg.i64):
        for i in range(4):
            x[i] = sg.assume_in_range(i + 2, base, -1, high)

    k(3, 3)
    assert x.to_numpy().tolist() == [2, 3, 4, 5, 0, 0, 0, 0]
    with pytest.raises(AssertionError, match=r"test_hints.py:\d+:\d+: .*is not in its range: correct the range"):
        k(3, 2)
    with pytest.raises(sg.KernelAssertionError):
        k(4, 3)


def test_a_range_is_not_asserted_without_debug() -> None:
    x = sg.field(sg.i32, 2)

    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.assume_in_range(i, 7, 0, 1) + sg.loop_unique(3)

    k()
    assert x.to_numpy().tolist() == [3, 4]


def test_functions_with_hints_are_python_outside_of_kernels() -> None:
    @sg.func
    def f(i):
        sg.block_local()
        return sg.loop_unique(i) + sg.assume_in_range(i, 0, 0, 10)

    assert f(3) == 6


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("block_local", "`block_local` takes arrays, not a value of type i32"),
        ("cache_read_only", "`cache_read_only` takes arrays, not a value of type i32"),
        ("loop_unique", "`loop_unique` takes 1 to 2 arguments, 3 given"),
        ("assume_in_range", "`assume_in_range` takes 4 arguments, 3 given"),
    ],
)
def test_what_is_no_hint(name: str, message: str) -> None:
    hint = getattr(sg, name)

    @sg.kernel
    def one(i: sg.i32):
        hint(i)

    @sg.kernel
    def three(i: sg.i32):
        hint(i, i, i)

    with pytest.raises((sg.KernelTypeError, sg.KernelSyntaxError), match=message):
        (one if "arrays" in message else three)(1)
