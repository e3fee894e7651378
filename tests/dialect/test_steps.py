# ruff: noqa: SIM113 - kernels have no `enumerate` of ranges
"""Ranges whose step is known at launch only: the indices that Python gives, forward and in reverse."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
RANGES = [(1, 11, 3), (10, 0, -1), (10, 0, -3), (0, 0, 1), (5, 1, 2), (1, 5, -2), (3, 4, 100), (0, 12, 5)]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_steps_of_the_launch(bounds) -> None:
    """In parallel loops, serial ones, and from last to first."""
    x, order, back = sg.field(sg.i32, 12), sg.field(sg.i32, 12), sg.field(sg.i32, 12)
    total = sg.field(sg.i32, ())

    @sg.kernel
    def k(begin: sg.i32, end: sg.i32, step: sg.i32):
        for i in range(begin, end, step):
            x[i] += 1
        for _ in range(1):
            count = 0
            for i in range(begin, end, step):
                order[count] = i
                count += 1
            count = 0
            for i in reversed(range(begin, end, step)):
                back[count] = i
                count += 1
            total[None] = count

    expected = list(range(*bounds))
    k(*bounds)
    assert total[None] == len(expected)
    assert [i for i in range(12) if x[i]] == sorted(expected)
    assert order.to_numpy()[: len(expected)].tolist() == expected
    assert back.to_numpy()[: len(expected)].tolist() == expected[::-1]


def test_steps_read_from_fields_and_of_64_bits() -> None:
    step, x = sg.field(sg.i64, ()), sg.field(sg.i64, 3)

    @sg.kernel
    def k():
        for _ in range(1):
            n = 0
            for i in range(7, 10_000_000_000, step[None]):
                x[n] = i
                n += 1

    step[None] = 4_000_000_000
    k()
    assert x.to_numpy().tolist() == list(range(7, 10_000_000_000, 4_000_000_000))


def test_bounds_at_the_ends_of_their_type() -> None:
    x = sg.field(sg.i32, 4)

    @sg.kernel
    def k(begin: sg.i32, end: sg.i32, step: sg.i32):
        for _ in range(1):
            n = 0
            for i in range(begin, end, step):
                x[n] = i
                n += 1

    ends = (-(2**31), 2**31 - 1, 2**30 + 5)
    k(*ends)
    assert x.to_numpy()[: len(range(*ends))].tolist() == list(range(*ends))
    ends = (2**31 - 1, -(2**31), -(2**31))
    k(*ends)
    assert x.to_numpy()[:2].tolist() == list(range(*ends))


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_recurrences_over_them_have_gradients(bounds) -> None:
    x, loss = sg.field(sg.f64, 12, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    a = np.linspace(0.5, 1.5, 12)
    x.from_numpy(a)

    @sg.kernel
    def k(begin: sg.i32, end: sg.i32, step: sg.i32):
        for _ in range(1):
            v = 1.0
            for i in range(begin, end, step):
                v = sg.sin(v * x[i]) + 0.1 * i
            loss[None] += v
        for i in range(begin, end, step):
            loss[None] += x[i] ** 3

    with sg.ad.Tape(loss):
        k(*bounds)

    def value(b):
        v = 1.0
        for i in range(*bounds):
            v = np.sin(v * b[i]) + 0.1 * i
        return v + sum(b[i] ** 3 for i in range(*bounds))

    eps = 1e-6
    expected = [(value(a + eps * e) - value(a - eps * e)) / (2 * eps) for e in np.eye(12)]
    assert loss[None] == pytest.approx(value(a), rel=1e-12)
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-7, atol=1e-9)


def test_break_and_continue_in_reverse() -> None:
    x, loss = sg.field(sg.f64, 12, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.fill(2.0)

    @sg.kernel
    def k(step: sg.i32):
        for _ in range(1):
            v = 1.0
            for i in range(11, -1, step):
                if i == 7:
                    continue
                if i < 4:
                    break
                v *= x[i]
            loss[None] += v

    with sg.ad.Tape(loss):
        k(-2)
    expected = np.zeros(12)
    expected[[11, 9, 5]] = 4.0
    assert loss[None] == 8.0
    assert x.grad.to_numpy().tolist() == expected.tolist()


def test_a_step_of_zero(arch) -> None:
    """No iteration in a release build; an error under debug, and always on the reference."""
    sg.init(arch=arch, debug=True)
    x = sg.field(sg.i32, 4)

    @sg.kernel
    def k(step: sg.i32):
        for i in range(0, 4, step):
            x[i] = 1

    with pytest.raises(sg.KernelAssertionError, match="the step of a range is zero") as caught:
        k(0)
    assert "test_steps.py" in str(caught.value)
    if arch == sg.cpu:
        sg.init(arch=arch, debug=False)
        y = sg.field(sg.i32, 4)

        @sg.kernel
        def release(step: sg.i32):
            for i in range(0, 4, step):
                y[i] = 1

        release(0)
        assert y.to_numpy().tolist() == [0, 0, 0, 0]
