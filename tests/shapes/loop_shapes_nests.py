# ruff: noqa: B007 - loops that only count
"""Define shapes of several loops: nested loops, and loops one after the other."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("loops", "triangular sweep: `for j in range(n)`, `for m in range(j)`")
def triangular(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            acc = 0.0
            for j in range(n[i]):
                for m in range(j):
                    acc += w[m] * w[j] * x[i]
            y[i] += acc

    return k


@shape("loops", "triangular, where each level carries the value on")
def triangular_carried(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                for m in range(j + 1):
                    v = v + 0.05 * m * v * v
                v = sg.sin(v)
            y[i] = v

    return k


@shape("loops", "four loops inside each other, each bounded by the one around it", n=ints([2, 0, 3, 1, 2]))
def four_levels(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for a in range(n[i]):
                for b in range(a + 1):
                    for c in range(b, n[i]):
                        for d in range(c - b):
                            v = v + 0.1 * v * v * d
                        v = v * 0.95
                v = v + 0.01 * a
            y[i] += v

    return k


@shape("loops", "two loops, one after another, over one value")
def siblings(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = v * v + 0.2
            for j in range(n[i] + 1):
                v = sg.sin(v) * 1.2
            y[i] += v

    return k


@shape("loops", "two loops in a loop that add to one element", total=real([0.5]))
def siblings_in_loop(x, total, n):
    @sg.kernel
    def k():
        for _ in range(1):
            for j in range(2):
                for m in range(n[2]):
                    total[0] += x[m % 5] * x[j]
                for m in range(n[0]):
                    total[0] += x[m] * x[1]

    return k


@shape("loops", "a factor and a number of trips made between two loops")
def siblings_statements_between(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = v * v + 0.2
            c = sg.cos(v)
            t = n[(i + 1) % 5] + 1
            for j in range(t):
                v = v * c + w[j]
            y[i] += v * c

    return k


@shape("loops", "the loop inside the second of two loops is bounded by what stands between them")
def siblings_nested_bound_between(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = v * 0.5 + v * v
            t = n[i] // 2 + 1
            for j in range(2):
                for m in range(t):
                    v = v + 0.1 * v * v
                t = t + 1
            y[i] = v

    return k


@shape("loops", "the second loop reads the field that the first one filled", a=real([9.0, 8.0, 7.0, 6.0, 5.0]))
def siblings_through_field(x, y, a, z):
    @sg.kernel
    def k():
        for _ in range(1):
            for j in range(5):
                a[j] = x[j] * x[j]
            for j in range(5):
                y[j] = a[j] * z[j] + y[j]

    return k


@shape("loops", "two loops in a serial loop, the second one through what the first one filled", a=real([9.0] * 5))
def siblings_through_field_repeated(x, y, a):
    @sg.kernel
    def k():
        for _ in range(1):
            for r in range(3):
                for j in range(5):
                    a[j] = x[j] * (r + 1)
                for j in range(5):
                    y[j] += a[j] * 0.5

    return k


@shape("loops", "a loop in a function")
def loop_in_function(x, y, n, w):
    @sg.func
    def horner(v, trips: sg.i32):
        s = 0.0
        for j in range(trips):
            s = s * v + w[j]
        return s

    @sg.kernel
    def k():
        for i in x:
            y[i] += horner(x[i], n[i]) * x[i]

    return k


@shape("loops", "a function with a loop, called twice in a loop, the second time on what the first call gave")
def loop_in_function_called_twice(x, y, n):
    @sg.func
    def settle(v, trips: sg.i32):
        for _ in range(trips):
            v = v - 0.1 * (v * v - 0.5)
        return v

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                u = settle(v, j)
                v = settle(u * x[i], 2) + u
            y[i] = v

    return k


@shape("loops", "a loop in a branch that some lanes take", flag=ints([1, 0, 1, 1, 0]))
def loop_in_branch(x, y, n, flag):
    @sg.kernel
    def k():
        for i in x:
            if flag[i] == 1:
                v = x[i]
                for _ in range(n[i]):
                    v = 0.5 * v * v + x[i]
                y[i] += v

    return k


@shape("loops", "a loop in both arms of a branch on the value")
def loop_in_both_arms(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            if v > 0.45:
                for j in range(n[i]):
                    v = v * v + 0.1 * j
            else:
                for j in range(n[i] // 2 + 1):
                    v = sg.sin(v) + x[i]
            y[i] += v

    return k


@shape("loops", "a loop with `break` in one arm, a `while` in another one, in a loop")
def loops_in_arms_in_loop(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                if j % 2 == 0:
                    for m in range(4):
                        v = v * 1.2
                        if v > 1.0:
                            break
                elif v > 0.6:
                    while v > 0.3:
                        v = v * 0.6
                else:
                    v = v + 0.5
            y[i] += v

    return k


@shape(
    "loops",
    "`ndrange` at the top and a loop over one of its indices inside",
    q=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9]]),
)
def ndrange_with_inner_loop(q, y, w):
    @sg.kernel
    def k():
        for i, j in sg.ndrange(3, 2):
            s = q[i, j]
            for m in range(j + 1):
                s = s * w[m] + q[i, j] * q[i, j]
            y[i] += s

    return k


@shape("loops", "`ndrange` inside a loop, and a loop over its index inside that", n=ints([2, 0, 3, 1, 2]))
def ndrange_in_loop(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for a, b in sg.ndrange(n[i], 3):
                for m in range(b):
                    v = v + 0.05 * w[m] * v * v
                v = v * 0.9 + 0.01 * a
            y[i] = v

    return k


@shape(
    "loops",
    "a loop in a branch of a loop over a field of two axes",
    q=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9]]),
    r=real([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]]),
)
def field_of_two_axes(q, r, n):
    @sg.kernel
    def k():
        for i, j in q:
            if j == 1:
                v = q[i, j]
                for _ in range(n[i]):
                    v = v * v + q[i, 0]
                r[i, j] += v

    return k


@shape(
    "loops",
    "`grouped` indices with a loop that uses their components",
    q=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9]]),
    r=real([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]]),
)
def grouped_indices(q, r):
    @sg.kernel
    def k():
        for at in sg.grouped(q):
            v = q[at]
            for m in range(at[0] + at[1]):
                v = sg.sin(v) + 0.1 * m
            r[at] = v * q[at]

    return k


@shape("loops", "an unrolled loop inside a loop whose length the launch decides")
def static_in_dynamic(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                for m in sg.static(range(3)):
                    v = v + 0.1 * (m + 1) * v * v
                v = v * 0.8
            y[i] += v

    return k


@shape("loops", "many trips with a bound in memory", c=ints(40), x=real([0.3, 0.5]), y=real([1.0, 2.0]))
def many_trips(x, y, c):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(c[None]):
                v = v * 0.99 + 0.01 * sg.sin(v + x[i])
            y[i] = v

    return k


@shape("loops", "many trips with a constant bound", x=real([0.3, 0.5]), y=real([1.0, 2.0]))
def many_constant_trips(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(40):
                v = v * 0.98 + 0.02 * sg.cos(v * x[i])
            y[i] = v

    return k


@shape("loops", "an inner loop that is empty in the first trip and grows by a carried integer")
def inner_loop_grows(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            size = 0
            for j in range(n[i]):
                for m in range(size):
                    v = v * x[i] + 0.3
                size += 2 - j % 2
            y[i] += v * v

    return k
