# ruff: noqa: B007 - loops that only count
"""Define shapes of memory accesses in which parallel iterations read elements that other iterations write."""

from __future__ import annotations

import stackgrad as sg
from shape_table import Refused, ints, real, shape

DEPENDENT = Refused(
    "the iterations are not independent",
    "iterations run in any order, and one of them reads what another one overwrites",
)


@shape(
    "memory", "`s[i + 2]` from `s[i]` in a parallel loop", s=real([0.5, 0.6, 0.7, 0.8, 0.9, 0.4, 0.3]), how=DEPENDENT
)
def parallel_recurrence(s):
    @sg.kernel
    def k():
        for i in range(5):
            s[i + 2] = s[i] * s[i]

    return k


@shape("memory", "`x[i]` from `x[i]` and `x[i + 1]` in a parallel loop", how=DEPENDENT)
def parallel_stencil_in_place(x):
    @sg.kernel
    def k():
        for i in range(4):
            x[i] = x[i] * x[i + 1]

    return k


@shape("memory", "`y[i] += y[i - 1] * x[i]` in a parallel loop", how=DEPENDENT)
def parallel_atomic_recurrence(x, y):
    @sg.kernel
    def k():
        for i in range(1, 5):
            y[i] += y[i - 1] * x[i]

    return k


@shape(
    "memory",
    "a recurrence through an ndarray in a parallel loop",
    calls=(("a",),),
    a=real([0.3, 0.7, 0.4, 0.2], ndarray=True),
    how=DEPENDENT,
)
def parallel_recurrence_of_ndarray(a):
    @sg.kernel
    def k(a: sg.types.ndarray()):
        for i in range(3):
            a[i + 1] = a[i] * a[i]

    return k


@shape("memory", "a recurrence in a loop over a field", how=DEPENDENT)
def parallel_recurrence_over_field(x):
    @sg.kernel
    def k():
        for i in x:
            if i > 0:
                x[i] = x[i - 1] * x[i]

    return k


@shape("memory", "a kernel that uses a gradient array: what it reads there is constant")
def adjoints_used(x, y):
    @sg.kernel
    def k():
        for i in x:
            y[i] += x.grad[i] * x[i]

    return k


@shape("memory", "stored and loaded at indices that are read, all different: the launch tells", p=ints([3, 0, 4, 1, 2]))
def distinct_by_data(x, y, z, p):
    @sg.kernel
    def k():
        for i in x:
            y[p[i]] = x[i] * x[i]
            z[p[i]] = y[p[i]] * y[p[i]] + z[p[i]]

    return k


@shape(
    "memory",
    "from some elements of an array to others, by two tables that have nothing in common",
    s=real([0.3, 0.7, 0.4, 1.1, 0.5, 0.9]),
    a=ints([4, 0, 2]),
    b=ints([1, 5, 3]),
)
def disjoint_by_data(s, a, b, n):
    @sg.kernel
    def k():
        for i in range(3):
            v = s[a[i]]
            for _ in range(n[i]):
                v = sg.sin(v) * s[a[i]] + 0.2
            s[b[i]] = v

    return k


@shape(
    "memory",
    "stored at indices that are read, two of them equal, and loaded again",
    p=ints([3, 0, 3, 1, 2]),
    how=Refused("which iteration", "which of two iterations stored last depends on their order"),
)
def equal_by_data(x, y, z, p):
    @sg.kernel
    def k():
        for i in x:
            y[p[i]] = x[i] * x[i]
            z[i] = y[p[i]] * y[p[i]]

    return k
