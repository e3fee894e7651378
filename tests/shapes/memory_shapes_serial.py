# ruff: noqa: B007 - loops that only count
"""Define shapes of memory accesses: serial loops over arrays that they overwrite, and decisions by stored integers."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("memory", "two buffers in turn, in a serial loop over time", how="tape", a=real([0.0] * 5), c=ints(3))
def buffers_in_turn(x, a, c):
    @sg.kernel
    def k():
        for _ in range(1):
            for t in range(c[None]):
                for j in range(5):
                    a[j] = x[j] * x[(j + 1) % 5] + 0.2
                for j in range(5):
                    x[j] = sg.sin(a[j])

    return k


@shape("memory", "an array put in order in place", how="tape")
def sorted_in_place(x):
    @sg.kernel
    def k():
        for _ in range(1):
            for a in range(4):
                for b in range(4 - a):
                    if x[b] > x[b + 1]:
                        t = x[b] * 0.9
                        x[b] = x[b + 1]
                        x[b + 1] = t + 0.05 * t * t

    return k


@shape("memory", "running sums in place: nothing old is read again")
def prefix_sums_in_place(x):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(1, 5):
                x[i] += 0.5 * x[i - 1]

    return k


@shape("memory", "a `while` on an element that the loop adds to", how="tape", total=real(0.2))
def while_on_memory(x, total):
    @sg.kernel
    def k():
        for _ in range(1):
            j = 0
            while total[None] < 1.5 and j < 12:
                total[None] += x[j % 5] * total[None]
                j += 1

    return k


@shape(
    "memory",
    "counts made by atomics of integers, used as bounds by a later loop",
    count=ints([0, 0, 0]),
    p=ints([0, 2, 0, 1, 2]),
)
def counts_as_bounds(x, y, count, p):
    @sg.kernel
    def k():
        for i in count:
            count[i] = 0
        for i in p:
            count[p[i]] += 1
        for i in x:
            v = x[i]
            for _ in range(count[p[i]]):
                v = sg.sin(v) + 0.3 * v * v
            y[i] += v

    return k


@shape("memory", "a linked list followed to its end", follow=ints([2, 4, 1, -1, -1]))
def linked_list(x, y, follow):
    @sg.kernel
    def k():
        for i in x:
            at = i
            v = 1.0
            while at >= 0:
                v = v * (1.0 + x[at]) - 0.1
                at = follow[at]
            y[i] += v

    return k


@shape(
    "memory",
    "a table of integers that the loop itself rewrites decides where it stores",
    how="tape",
    p=ints([0, 1, 2, 3, 4]),
)
def table_rewritten(x, y, p):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(5):
                at = p[i]
                p[i] = (at + 2) % 5
                y[at] = y[p[i]] * x[i] + 0.3

    return k


@shape(
    "memory",
    "the diagonal of a table in memory, cell by cell from its neighbors",
    how="tape",
    q=real([[0.3, 0.7, 0.2], [0.4, 1.1, 0.6], [0.5, 0.9, 0.8]]),
)
def dynamic_program(q):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(1, 3):
                for j in range(1, 3):
                    q[i, j] = q[i, j] * q[i - 1, j - 1] + sg.max(q[i - 1, j], q[i, j - 1])

    return k
