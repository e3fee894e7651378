# ruff: noqa: B007 - loops that only count
"""Define shapes of loops that differ in what decides their range."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape

TRIPS = ((0,), (1,), (2,), (3,), (7,))
"""Every number of trips by argument."""


@shape("loops", "a bound that is an argument of the kernel", calls=TRIPS)
def bound_argument(x, y):
    @sg.kernel
    def k(n: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = v * v + x[i]
                v = sg.sin(v)
            y[i] += v

    return k


@shape("loops", "both ends are arguments, the range is empty or begins below zero", calls=((2, 1), (-3, 0), (1, 3)))
def bounds_two_arguments(x, y):
    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        for i in x:
            v = x[i]
            for j in range(a, b):
                v = v * (0.5 + 0.25 * j) + x[i]
                v = v * v
            y[i] += v

    return k


@shape("loops", "a bound in memory, the same for all lanes", c=ints(4))
def bound_in_memory(x, y, c):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(c[None]):
                v = sg.sin(v) * 1.1
            y[i] += v

    return k


@shape("loops", "a step of 2 that does not meet the end")
def step_constant(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(1, n[i] + 2, 2):
                v = v * v + 0.1 * j
            y[i] += v

    return k


@shape("loops", "a step of -1: the range runs downward")
def step_negative(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i], -1, -1):
                v = sg.sin(v) * w[j] + 0.3
            y[i] += v

    return k


@shape("loops", "a step that is an argument, up and down", calls=((1,), (3,), (-2,)))
def step_argument(x, y, w):
    @sg.kernel
    def k(step: sg.i32):
        for i in x:
            v = x[i]
            for j in range(3 - 3 * sg.select(step > 0, 1, -1), 3 + 3 * sg.select(step > 0, 1, -1), step):
                v = v * v + w[j] * x[i]
            y[i] = v

    return k


@shape("loops", "`reversed(range)` over a recurrence")
def range_reversed(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in reversed(range(n[i])):
                v = v * w[j] + sg.cos(v)
            y[i] += v

    return k


@shape("loops", "a range that begins below zero")
def begin_negative(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(-2, n[i] - 1):
                v = v + 0.2 * v * v * j
            y[i] += v

    return k


@shape(
    "loops",
    "ends in memory, where some ranges are empty and some begin below zero",
    b=ints([5, -4, 0, 3, -1]),
    e=ints([2, -1, 0, 6, -3]),
)
def range_empty_or_negative(x, y, b, e):
    @sg.kernel
    def k():
        for i in x:
            v = 3.0 * x[i]
            for j in range(b[i], e[i]):
                v = v * x[i] + 0.1 * j
            y[i] += v

    return k


@shape("loops", "a loop that no lane ever enters", n=ints([0, -3, 0, -1, 0]))
def range_never_entered(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i] * x[i]
            for _ in range(n[i]):
                v = sg.exp(v)
            y[i] = v

    return k


@shape("loops", "a bound made of a real input", b=real([2.5, 0.25, 3.75, 1.5, 6.25]))
def bound_from_real(x, y, b):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(int(b[i])):
                v = v * v + 0.3 * x[i]
            y[i] += v * b[i]

    return k


@shape("loops", "a bound made of a value that was just computed")
def bound_from_computed_real(x, y):
    @sg.kernel
    def k():
        for i in x:
            s = 5.0 * x[i] * x[i]
            v = s
            for _ in range(int(s)):
                v = sg.sin(v) + s
            y[i] += v

    return k


@shape("loops", "`min(2*n + 1, 6)` trips")
def bound_min(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(min(2 * n[i] + 1, 6)):
                v = v * (1.0 - 0.1 * v)
            y[i] += v

    return k


@shape("loops", "`max(n - 2, 1)` trips")
def bound_max(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(max(n[i] - 2, 1)):
                v = v * v + 0.2
            y[i] += v

    return k


@shape("loops", "`n // 2` trips")
def bound_floordiv(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i] // 2):
                v = sg.tanh(v) * 1.5
            y[i] += v

    return k


@shape("loops", "`n % 4` trips, shifted by a bit")
def bound_mod_and_shift(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range((n[i] << 1) % 5):
                v = sg.cos(v) * v
            y[i] += v

    return k


@shape("loops", "`i * i` trips: no lane's number is its own index")
def bound_square(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(i * i):
                v = v + 0.05 * v * v
            y[i] += v

    return k


@shape("loops", "`sqrt` of a number as bound")
def bound_sqrt(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(int(sg.sqrt(2.0 * n[i] + 0.5))):
                v = v * v + x[i]
            y[i] += v

    return k


@shape("loops", "`n - j` trips under a loop over j: the bound falls")
def bound_falls(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                for m in range(n[i] - j - 1):
                    v = v + 0.1 * v * v
                v = v * 0.9
            y[i] += v

    return k


@shape("loops", "a constant minus what memory holds, below zero in a lane", n=ints([9, 12, 10, 8, 7]))
def bound_constant_minus_memory(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(10 - n[i]):
                v = v * v + 0.4
            y[i] += v

    return k


@shape("loops", "an integer carried through the loop bounds an inner loop")
def bound_carried_integer(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            a = 1
            b = 0
            for j in range(n[i]):
                for m in range(a):
                    v = v + 0.03 * v * v
                c = a + b
                b = a
                a = c
            y[i] += v

    return k


@shape("loops", "a bound that the loop changes: it was evaluated once")
def bound_changed_in_loop(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            m = n[i]
            for j in range(m):
                m = m - 1
                v = v * v + 0.1 * m
            y[i] += v * m

    return k


@shape("loops", "the extent of a field as bound")
def bound_shape(x, y, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(w.shape[0]):
                v = sg.sin(v + w[j])
            y[i] = v

    return k
