# ruff: noqa: B007 - loops that only count
"""Define shapes of loops whose range is read from an array at an index that is computed or read."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("loops", "the number of trips stands in another array, at a shifted index")
def bound_shifted_index(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[(i + 2) % 5]):
                v = v * 0.8 + v * v
            y[i] += v

    return k


@shape("loops", "the number of trips stands behind an index that is read", p=ints([4, 4, 0, 2, 1]))
def bound_indirect_index(x, y, n, p):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[p[i]]):
                v = sg.exp(-v) + v * v
            y[i] += v

    return k


@shape(
    "loops",
    "segments `start[i] .. start[i + 1]`: a product of sparse rows",
    start=ints([0, 2, 2, 3, 6, 7]),
    col=ints([1, 4, 0, 0, 2, 2, 3]),
)
def csr_rows(x, y, w, start, col):
    @sg.kernel
    def k():
        for i in y:
            acc = 0.0
            for e in range(start[i], start[i + 1]):
                acc += w[e] * x[col[e]]
            y[i] += acc * acc

    return k


@shape("loops", "segments whose order matters: a recurrence along each", start=ints([0, 2, 2, 3, 6, 7]))
def csr_recurrence(x, y, w, start):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for e in range(start[i], start[i + 1]):
                v = v * w[e] + sg.sin(v)
            for e in range(start[i + 1] - start[i]):
                v = v * (1.0 + 0.1 * e)
            y[i] = v

    return k


@shape(
    "loops",
    "a guard before a bound that may not be read elsewhere",
    a=ints([3, 1, 0, 2]),
    x=real([0.3, 0.7, 0.4, 1.1, 0.5, 0.8, 0.2]),
    y=real([1.0, 2.0, -1.0, 0.5, 0.3, 0.2, 0.1]),
)
def bound_behind_guard(x, y, a):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            if i < 4:
                for j in range(a[i]):
                    v = v * v + 0.2
            y[i] += v

    return k
