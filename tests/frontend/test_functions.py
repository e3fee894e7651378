"""Inlined functions and what outlives a loop: traced kernels write what plain Python writes."""

from __future__ import annotations

import stackgrad as sg
from frontend_support import agree, execute, integers, number, real


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


def test_functions() -> None:
    x, y = real(0.5, 2.0, -1.0), real(0, 0, 0)

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
