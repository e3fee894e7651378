"""Traced kernels, run on the reference, write what plain Python writes when it runs the same function."""
from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, agree, execute, integers, number, real, traced
from stackgrad.compiler.frontend.trace import FrontendOptions


def test_recurrence_with_a_bound_read_from_a_field() -> None:
    x, y, n = real(0.3, -1.2, 2.0), real(0, 0, 0), number(7)

    def k():
        for i in range(3):
            v = x[i]
            for j in range(n[None]):
                v = v * 0.95 + 0.01 * math.sin(v) - j
            y[i] = v

    agree(k)


def test_triangular_and_sibling_loops() -> None:
    x, y = real(0.1, 0.2, 0.3, 0.4), real(0, 0, 0, 0)

    def k():
        for i in range(4):
            total = 0.0
            for j in range(i):
                for m in range(j, 4):
                    total += x[j] * x[m]
            for j in range(4 - i):
                total -= x[j]
            y[i] = total

    agree(k)


@pytest.mark.parametrize(("begin", "end"), [(0, 7), (5, -3), (-4, 4), (3, 3), (6, 0)])
@pytest.mark.parametrize("parallel", [True, False])
def test_ranges_with_steps(begin: int, end: int, parallel: bool) -> None:
    out, seen = integers(*[0] * 40), integers(0)

    def outer(a: sg.i32, b: sg.i32):
        for i in range(a, b, 2):
            out[i + 10] += i + 20
        for i in range(a, b, -2):
            out[i + 10] += i + 40
        for i in range(a, b, -1):
            out[i + 10] += i + 60
        for i in range(b, a, 3):
            out[i + 10] += 1
        for i in range(-3, 8, 3):
            out[i + 10] += 5
        for i in range(8, -3, -3):
            out[i + 10] += 7

    def inner(a: sg.i32, b: sg.i32):
        for _ in range(1):
            for i in range(a, b, 2):
                out[i + 10] = i + seen[0]
                seen[0] += 1
            for i in range(a, b, -1):
                out[i + 10] += i * 3 + seen[0]
                seen[0] += 1
            for i in reversed(range(-2, 5)):
                out[i + 10] += seen[0] * i
                seen[0] += 1

    agree(outer if parallel else inner, begin, end)


def test_parallel_range_at_the_ends_of_i32() -> None:
    out = integers(0, 0, 0, dtype=sg.i64)

    def k(a: sg.i32, b: sg.i32):
        for i in range(a, b, 1 << 30):
            out[0] += i
        for i in range(b, a, -(1 << 30)):
            out[1] += i
        for i in range(b, b - 2, -1):
            out[2] += i

    agree(k, -(1 << 31), (1 << 31) - 1)


def test_struct_for_and_ndrange() -> None:
    grid, out = Field(sg.f64, (3, 4)), Field(sg.f64, (3, 4))

    def k():
        for i, j in grid:
            grid[i, j] = i * 10 + j
        for i, j in sg.ndrange((1, 3), 4):
            out[i, j] = grid[i, j] - grid[i - 1, 3 - j]
        for _ in range(1):
            for j, m in sg.ndrange(3, (0, 2)):
                out[j, m] += 1.0
            for j, m in grid:
                if m == 3:
                    break
                out[j, m] += 0.25

    made = traced(k)
    assert [len(t.indices) for t in made.kernel.tasks] == [2, 2, 1]
    execute(k)
    expected = np.add.outer(np.arange(3) * 10.0, np.arange(4))
    np.testing.assert_array_equal(grid.data, expected)
    difference = np.zeros((3, 4))
    difference[1:] = expected[1:] - expected[:-1, ::-1]
    difference[:, :2] += 1.0
    difference[0, :3] += 0.25  # `break` leaves the whole loop over the field
    np.testing.assert_allclose(out.data, difference)


def test_ndrange_of_a_shape() -> None:
    grid = Field(sg.i32, (2, 3))

    def k():
        for i, j in sg.ndrange(*grid.shape):
            grid[i, j] = i * grid.shape[1] + j + len(grid.shape)

    agree(k)


def test_while_break_continue() -> None:
    out, start = integers(*[0] * 8), integers(1, 2, 3, 6, 7, 9, 12, 27)

    def k():
        for i in range(8):
            v, steps = start[i], 0
            while v != 1:
                v = v // 2 if v % 2 == 0 else 3 * v + 1
                steps += 1
                if steps > 50:
                    break
            out[i] = steps
        for i in range(8):
            for j in range(10):
                if j % 2 == i % 2:
                    continue
                if j > i:
                    break
                out[i] += j
        for i in range(8):
            if i == 3:
                continue
            out[i] += 1000

    agree(k)


def test_while_true() -> None:
    out = integers(0, 0, 0)

    def k():
        for i in range(3):
            v = 0
            while True:
                v += i + 1
                if v > 10:
                    break
            out[i] = v

    agree(k)


def test_branches_and_short_circuits() -> None:
    x, out = real(-2.0, -0.5, 0.0, 0.5, 2.0), integers(0, 0, 0, 0, 0)

    def k():
        for i in range(5):
            if x[i] < -1:
                out[i] = 1
            elif -1 <= x[i] < 0 or x[i] == 0:
                out[i] = 2
            elif not (x[i] > 1 and i != 3):
                out[i] = 3
            else:
                out[i] = 4
            if 0 < i < 4 and x[i - 1] < x[i] < x[i + 1]:
                out[i] += 10
            if i == 0 or x[i - 1] > 0:
                out[i] += 100

    agree(k)


def test_right_operand_is_skipped() -> None:
    """An index outside its array would trap on the reference, an integer division by zero too."""
    x, out = real(1.0, 2.0), integers(0, 0, 0)

    def k():
        for i in range(3):
            if i < 2 and x[i] > 0.0:
                out[i] = 1
            if i == 2 or x[i] < 0.0:
                out[i] = 2
            out[i] += 6 // i if i != 0 else 50

    agree(k)


def test_right_operand_with_an_effect() -> None:
    out = integers(0, 0)

    def k():
        for _ in range(1):
            for j in range(4):
                if j > 1 and sg.atomic_add(out[0], 1) >= 0:
                    out[1] += 1

    execute(k)
    assert list(out.data) == [2, 2]


def test_swaps_tuples_and_augmented_assignment() -> None:
    x, y = real(0.5, 1.5), real(0, 0, 0, 0)

    def k():
        for _ in range(1):
            a, b = x[0], x[1]
            for _ in range(5):
                a, b = b, a + b
            y[0] = a
            (c, d), e = (b, 2.0), 3
            c *= d
            c **= 2
            c /= e
            c //= 0.5
            c %= 7
            y[1] = c
            y[2] = y[3] = d - e
            y[2] *= 3
            y[3] //= 2.0
            x[0], x[1] = x[1], x[0]

    agree(k)


def test_augmented_local_reads_before_the_right_side() -> None:
    out = integers(0)

    def k():
        for i in range(1):
            v = 1
            v += (v := 10) * 2
            out[i] = v

    agree(k)


@pytest.mark.parametrize("a", [-7, -1, 3, 8])
@pytest.mark.parametrize("b", [-3, 2, 5])
def test_integer_arithmetic(a: int, b: int) -> None:
    out, ratio = integers(*[0] * 14), real(0, 0)

    def k(p: sg.i32, q: sg.i32):
        for _ in range(1):
            out[0] = p // q
            out[1] = p % q
            out[2] = p * q - p + q
            out[3] = p ** 3
            out[4] = p & q
            out[5] = p | q
            out[6] = p ^ q
            out[7] = ~p
            out[8] = p << 3
            out[9] = p >> 1
            out[10] = -p
            out[11] = abs(p) + min(p, q, 1) - max(p, q)
            out[12] = sg.raw_div(p, q)
            out[13] = sg.raw_mod(p, q)
            ratio[0] = p / q
            ratio[1] = (p + 0.5) % q + (p + 0.5) // q

    agree(k, a, b)


def test_mathematics() -> None:
    x, out = real(0.3, 0.9), real(*[0.0] * 30)

    def k():
        for i in range(1):
            a, b = x[0], x[1]
            out[0] = sg.sin(a) + math.cos(b) + np.tan(a)
            out[1] = sg.asin(a) + sg.acos(b) + sg.atan2(a, b)
            out[2] = sg.tanh(a) + math.exp(b) + sg.log(b)
            out[3] = math.sqrt(a) + sg.rsqrt(b)
            out[4] = abs(a - b) + sg.abs(b - a) + math.fabs(a - b)
            out[5] = sg.floor(a * 10) + sg.ceil(b * 10) + sg.round(a * 5)
            out[6] = round(b * 3) + math.floor(a * 7) + math.ceil(-b) + np.floor(-a)
            out[7] = min(a, b) + max(a, 1, b)
            out[8] = pow(a, 3) + sg.pow(b, a) + a ** 2 + a ** b
            out[9] = sg.sgn(a - b) + sg.inv(a) + sg.rcp(b)
            out[10] = sg.select(a > b, a, b) + np.where(a < b, 1.0, 2.0)
            m, e = sg.frexp(a * 100)
            out[11] = m + e
            out[12] = int(b * 10) + float(i) + sg.cast(b * 9, sg.i32) + int(True)
            out[13] = sg.raw_mod(-b, a) + math.fmod(b, a)
            out[14] = sg.select(sg.isnan(a), 1.0, 2.0) + math.pi * math.e
            out[15] = math.sqrt(2.0) * sg.sin(1) + max(1, 2)

    agree(k)


def test_bits() -> None:
    out = integers(*[0] * 8)

    def k(v: sg.i32):
        for _ in range(1):
            out[0] = sg.popcnt(v)
            out[1] = sg.clz(v)
            out[2] = sg.ffs(v)
            out[3] = sg.bit_shr(v, 4)
            out[4] = sg.bit_cast(1.5, sg.i64) != 0

    agree(k, 0x00F0)
    execute(k, -256)
    assert list(out.data[:5]) == [24, 0, 9, 0x0FFFFFF0, 1]


def test_conversions_saturate_and_wrap() -> None:
    out, small, wide = integers(0, 0, 0), integers(0, 0, dtype=sg.u8), integers(0, dtype=sg.i64)

    def k(big: sg.f64, odd: sg.i32):
        for _ in range(1):
            out[0] = int(big)
            out[1] = int(1e30)
            out[2] = sg.i32(-1e30)
            small[0] = odd
            small[1] = 300
            wide[0] = 1 << 40

    execute(k, 1e20, 259)
    top = (1 << 31) - 1
    assert list(out.data) == [top, top, -top - 1]
    assert list(small.data) == [3, 44] and wide.data[0] == 1 << 40


def test_functions() -> None:
    x, y = real(0.5, 2.0, -1.0), real(0, 0, 0)

    @sg.func
    def clamp(v, low: sg.f64 = 0.0, high: sg.f64 = 1.0):
        if v < low:
            return low
        if v > high:
            return high
        return v

    @sg.func
    def smooth(v):
        v = clamp(v)
        return v * v * (3 - 2 * v)

    @sg.func
    def both(a, b):
        return a + b, a - b

    @sg.func
    def first_above(limit):
        for j in range(3):
            if x[j] > limit:
                for _ in range(2):
                    return j, x[j]
        return -1, 0.0

    @sg.func
    def store(target, i, value):
        if value > 0:
            target[i] = value
            return
        target[i] = -value

    def k():
        for i in range(3):
            s, d = both(smooth(x[i]), clamp(v=x[i], high=3))
            j, v = first_above(x[i])
            store(y, i, s * d + j + v)

    agree(k)


def test_functions_called_outside_loops() -> None:
    x, y = real(0.5, 2.0, -1.0), real(0, 0, 0)

    @sg.func
    def power(base, n: sg.i32):
        r = 1.0
        for _ in range(n):
            r = r * base
        return r

    @sg.func
    def fill(value):
        for i in range(3):
            y[i] = value * i

    def k(n: sg.i32):
        fill(power(x[1], n))
        y[0] += power(x[0], 3)

    agree(k, 5)


def test_parameters_are_copies() -> None:
    out = integers(0, 0)

    @sg.func
    def doubled(v):
        v *= 2
        v += 1
        return v

    def k():
        for i in range(2):
            a = i + 1
            b = doubled(a)
            out[i] = a * 100 + b

    agree(k)


def test_early_return_from_nested_loops_and_unrolled_ones() -> None:
    out = integers(*[0] * 6)

    @sg.func
    def find(n):
        for a in range(1, 10):
            for b in sg.static(range(1, 6)):
                if a * b == n:
                    return 10 * a + b
        return 0

    @sg.func
    def chosen(n):
        for c in sg.static(range(4)):
            if sg.static(c == 2):
                return c * n
        return n

    def k():
        for i in range(6):
            out[i] = find(i * 3) + chosen(i) * 100

    agree(k)


def test_unrolled_loops_with_exits() -> None:
    out = integers(*[0] * 5)

    def k():
        for i in range(5):
            total = 0
            for j in sg.static(range(6)):
                if j == i:
                    continue
                if j > i + 2:
                    break
                for m in range(4):
                    if m == 2:
                        break
                    total += j * m + 1
            out[i] = total

    agree(k)


def test_return_ends_the_kernel_in_serial_code() -> None:
    out, stop = integers(0, 0), number(1)

    def k():
        out[0] = 1
        if stop[None] > 0:
            return
        for i in range(2):
            out[i] = 5

    execute(k)
    assert list(out.data) == [1, 0]
    stop.data[()] = 0
    execute(k)
    assert list(out.data) == [5, 5]


def test_kernel_values_in_later_loops() -> None:
    x, y, n = real(1, 2, 3), real(0, 0, 0), number(2)

    def k(scale: sg.f64):
        bound = n[None]
        factor = scale * x[0]
        for i in range(bound):
            y[i] = x[i] * factor
        factor += 1.0
        for i in range(bound, 3):
            y[i] = x[i] * factor

    agree(k, 2.5)


def test_first_type_of_a_local_stays() -> None:
    out = real(0, 0)

    def k():
        for i in range(2):
            v = 0
            v += 1.75
            w = 1.0
            w = 3
            out[i] = v + w / 2

    made = execute(k)
    assert list(out.data) == [2.5, 2.5]
    (warning,) = made.warnings
    assert "real value" in warning.reason and "`v`" in warning.reason and warning.span
    assert warning.span.text.strip() == "v += 1.75"


def test_boolean_locals_and_arithmetic() -> None:
    x, out = real(0.5, -0.5), integers(0, 0)

    def k():
        for i in range(2):
            positive = x[i] > 0
            flag = positive and i == 0
            out[i] = positive + flag + (x[i] > -1) * 10
            if flag or not positive:
                out[i] += 100
            out[i] += int(positive ^ True) + int(positive & flag)

    agree(k)


def test_random_draws() -> None:
    x, n = real(*[0] * 50), integers(*[0] * 50)

    def k():
        for i in range(50):
            x[i] = sg.random()
            n[i] = sg.random(int) % 10

    execute(k)
    assert len(set(x.data)) == 50 and ((x.data >= 0) & (x.data < 1)).all() and len(set(n.data)) > 3


def test_gradient_arrays() -> None:
    x = real(1, 2, 3, needs_grad=True)

    def k():
        for i in x:
            x.grad[i] += 2 * x[i]

    made = execute(k)
    assert made.arrays == {"x": x, "x.grad": x.grad}
    assert x.grad is not None and list(x.grad.data) == [2, 4, 6]


def test_types_of_mixed_operands() -> None:
    out = Field(sg.f32, 6)

    def k(i: sg.i64, h: sg.f16, u: sg.u8, d: sg.f64):
        out[0] = i + h
        out[1] = u + 1
        out[2] = u - 2
        out[3] = d + h
        out[4] = i / 3
        out[5] = u // 2

    execute(k, 3, 0.5, 1, 0.25, options=FrontendOptions())
    np.testing.assert_allclose(out.data, [3.5, 2, -1, 0.75, 1.0, 0])


def test_atomics_give_the_old_value_and_work_on_locals() -> None:
    out, total = integers(0, 0, 0), real(5.0)

    def k():
        for _ in range(1):
            local = 7
            out[0] = sg.atomic_min(local, 3) * 10 + local
            out[1] = sg.atomic_max(out[0], 500)
            out[2] = sg.atomic_xor(local, 1) + local
            sg.atomic_sub(total[0], 1.5)
            sg.atomic_mul(total[0], 2)

    execute(k)
    assert list(out.data) == [500, 73, 5] and total.data[0] == 7.0
