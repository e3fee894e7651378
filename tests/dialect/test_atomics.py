"""Compare-and-swap, loads that are called volatile, products and exchanges, on each executor."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def test_one_iteration_takes_the_slot() -> None:
    slot, old = sg.field(sg.i32, ()), sg.field(sg.i32, 64)
    slot[None] = -1

    @sg.kernel
    def k():
        for i in range(64):
            old[i] = sg.atomic_cas(slot[None], -1, i)

    k()
    found = old.to_numpy()
    assert (found == -1).sum() == 1
    assert set(found) == {-1, slot[None]}
    assert found[slot[None]] == -1


def test_a_retry_loop_makes_any_update_atomic() -> None:
    """x = (3x + 1) mod 1009 from many iterations: the result is that of some order, and all orders agree."""
    x = sg.field(sg.u32, ())

    @sg.kernel
    def k():
        for _ in range(100):
            done = False
            while not done:
                old = x[None]
                new = (3 * old + 1) % sg.u32(1009)
                done = sg.atomic_cas(x[None], old, new) == old

    k()
    expected = 0
    for _ in range(100):
        expected = (3 * expected + 1) % 1009
    assert x[None] == expected


@pytest.mark.parametrize("dtype", [sg.f16, sg.f32, sg.f64], ids=str)
def test_reals_are_compared_by_their_bits(dtype) -> None:
    x, old = sg.field(dtype, 4), sg.field(dtype, 4)
    x.from_numpy(np.array([0.0, -0.0, math.nan, 1.5], dtype.dtype))

    @sg.kernel
    def k(nan: dtype):
        for i in range(4):
            expected = sg.cast(0.0, dtype)
            if i == 2:
                expected = nan
            old[i] = sg.atomic_cas(x[i], expected, 7.0)

    k(math.nan)
    assert x.to_numpy().tolist() == [7.0, -0.0, 7.0, 1.5]
    assert math.copysign(1.0, x[1]) == -1.0
    np.testing.assert_array_equal(old.to_numpy(), np.array([0.0, -0.0, math.nan, 1.5], dtype.dtype))


def test_locals_and_entries_of_vectors_swap_too() -> None:
    v, found = sg.Vector.field(3, sg.i32, 2), sg.field(sg.i32, 4)
    v.fill(5)

    @sg.kernel
    def k():
        for _ in range(1):
            a = 5
            found[0] = sg.atomic_cas(a, 5, 6)
            found[1] = sg.atomic_cas(a, 5, 7)
            found[2] = a
            found[3] = sg.atomic_cas(v[1][2], 5, 9)

    k()
    assert found.to_numpy().tolist() == [5, 6, 6, 5]
    assert v.to_numpy().tolist() == [[5, 5, 5], [5, 5, 9]]


@pytest.mark.parametrize(
    ("case", "message"),
    [(0, "takes 3 arguments"), (1, "no atomic compare-and-swap on u1"), (2, "no atomic compare-and-swap on a vector")],
)
def test_mistakes(case, message) -> None:
    x, s, b = sg.field(sg.i32, 4), sg.Vector.field(2, sg.i32, 4), sg.field(sg.u1, 4)

    @sg.kernel
    def k():
        for _ in range(1):
            if sg.static(case == 0):
                sg.atomic_cas(x[0], 1)
            elif sg.static(case == 1):
                sg.atomic_cas(b[0], True, False)
            else:
                sg.atomic_cas(s[0], 1, 2)

    with pytest.raises(sg.StackgradError, match=message):
        k()


def test_a_swap_of_an_own_element_has_a_gradient() -> None:
    x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, 3, needs_grad=True)
    loss = sg.field(sg.f64, (), needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))

    @sg.kernel
    def k():
        for i in x:
            y[i] = i * 1.0
            sg.atomic_cas(y[i], 1.0, x[i] ** 2)
            loss[None] += y[i] * x[i]

    with sg.ad.Tape(loss):
        k()
    assert loss[None] == 0.0 + 8.0 + 6.0
    assert x.grad.to_numpy().tolist() == [0.0, 12.0, 2.0]


def test_a_swap_between_iterations_has_none() -> None:
    x, y = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_cas(y[None], 0.0, x[i])

    with pytest.raises(sg.NotDifferentiable, match="the gradient of an atomic cas needs the values it overwrote"):
        k.grad()


def test_forward_mode_of_a_swap() -> None:
    x, y = sg.field(sg.f64, 3, needs_dual=True), sg.field(sg.f64, (), needs_dual=True)
    x.from_numpy(np.array([4.0, 5.0, 6.0]))

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_cas(y[None], 0.0, 3.0 * x[i])

    with sg.ad.FwdMode(y, x, [1.0, 10.0, 100.0]):
        k()
    assert (y[None], y.dual[None]) == (12.0, 3.0)


def test_volatile_load_is_a_load() -> None:
    x, y = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.fill(3.0)

    @sg.kernel
    def k():
        for i in x:
            y[None] += sg.volatile_load(x[i]) ** 2

    with sg.ad.Tape(y):
        k()
    assert y[None] == 36.0
    assert x.grad.to_numpy().tolist() == [6.0] * 4
