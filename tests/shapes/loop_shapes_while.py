# ruff: noqa: B007 - loops that only count
"""Define shapes of while loops."""

from __future__ import annotations

import stackgrad as sg
from shape_table import shape


@shape("loops", "`while` until the value that its body shrinks is small")
def while_value_shrinks(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            while v > 0.2:
                v = v * (0.6 + 0.1 * sg.sin(v))
            y[i] += v

    return k


@shape("loops", "`while` with a counter of its own as bound")
def while_counts(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while t < n[i]:
                v = sg.sin(v) + 0.1 * t
                t += 1
            y[i] = v

    return k


@shape("loops", "`while` with two conditions, one on the value and one on a counter")
def while_two_conditions(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while v < 2.0 and t < n[i]:
                v = v * v + x[i]
                t += 1
            y[i] += v * t

    return k


@shape("loops", "`while` whose condition calls a function that returns early")
def while_calls_in_condition(x, y, n):
    @sg.func
    def goes_on(v, t, limit):
        if t >= limit:
            return False
        if v > 3.0:
            return False
        return v * v < 4.0

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while goes_on(v, t, n[i]):
                v += sg.exp(-v)
                t += 1
            y[i] += v * v

    return k


@shape("loops", "`while` inside `while`, the inner one bounded by a value of the outer one")
def while_in_while(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while t < n[i]:
                u = 1.0 + v
                while u > 0.5:
                    u = u * 0.7
                    v += 0.1 * u * v
                t += 1
            y[i] += v

    return k


@shape("loops", "`while` inside `for`, run a different number of times in each trip")
def while_in_for(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                t = j
                while t > 0:
                    v = v * sg.cos(x[i] * t)
                    t -= 2
            y[i] += v

    return k


@shape("loops", "`while True` left by `break` in the middle of its body")
def while_true(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while True:
                v = v + 0.2 * v * v
                if t >= n[i]:
                    break
                v = sg.sin(v)
                t += 1
            y[i] = v

    return k


@shape("loops", "Newton's iteration until it has converged")
def while_not_converged(x, y):
    @sg.kernel
    def k():
        for i in x:
            a = 1.0 + x[i]
            r = a
            while r * r - a > 1e-3:
                r = 0.5 * (r + a / r)
            y[i] += r

    return k
