# ruff: noqa: B007 - loops that only count
"""Define shapes of memory accesses: loads and stores, and elements that are overwritten."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("memory", "an output that the loop adds to")
def output_accumulated(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            for j in range(n[i]):
                y[i] += w[j] * x[i] * x[i]

    return k


@shape("memory", "an element as the state of the loop")
def element_is_state(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i]
            for _ in range(n[i]):
                y[i] = sg.sin(y[i]) + 0.2 * x[i]

    return k


@shape(
    "memory",
    "an element of two axes as state, its old content used in the first trip",
    how="tape",
    q=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9]]),
)
def element_is_state_in_place(q, n):
    @sg.kernel
    def k():
        for i, j in q:
            for _ in range(n[i] + j):
                q[i, j] = sg.sin(q[i, j]) * q[i, j] + 0.1

    return k


@shape("memory", "stored, then loaded by the same iteration", a=real([9.0, 8.0, 7.0, 6.0, 5.0]))
def store_then_load(x, y, a):
    @sg.kernel
    def k():
        for i in x:
            a[i] = x[i] * x[i]
            y[i] = a[i] * a[i] + a[i]

    return k


@shape("memory", "stored, loaded and stored again in each trip", a=real([9.0, 8.0, 7.0, 6.0, 5.0]))
def store_then_load_in_loop(x, y, a, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            a[i] = v
            for j in range(n[i]):
                a[i] = v * v
                v = sg.sin(a[i]) + 0.3
            y[i] += v * a[i]

    return k


@shape(
    "memory",
    "stored in each trip and used behind the loop, where lanes without a trip use the old content",
    how="tape",
    a=real([9.0, 8.0, 7.0, 6.0, 5.0]),
)
def store_in_loop_or_never(x, y, a, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                a[i] = v * v
                v = sg.sin(a[i]) + 0.3
            y[i] += v * a[i]

    return k


@shape("memory", "an output written twice: the first store has no influence")
def output_overwritten(x, y, z):
    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] * x[i]
            y[i] = x[i] * 2.0
            z[i] = 1.0

    return k


@shape("memory", "an output written, read and written again")
def output_overwritten_after_use(x, y, z):
    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] * x[i]
            z[i] = y[i] * x[i]
            y[i] = sg.sin(z[i])

    return k


@shape("memory", "a constant stored in one arm only")
def constant_in_one_arm(x, y):
    @sg.kernel
    def k():
        for i in x:
            if x[i] > 0.45:
                y[i] = 1.0
            else:
                y[i] = y[i] * 2.0 + x[i]

    return k


@shape("memory", "scaled in place by a constant: nothing old is read")
def scaled_in_place(x, n):
    @sg.kernel
    def k():
        for i in x:
            for _ in range(n[i]):
                x[i] = x[i] * 0.9 + 0.5

    return k


@shape("memory", "scaled in place by another field", how="tape", a=real([0.4, 1.0, -0.3, 0.7, 0.2]))
def scaled_by_field(x, a):
    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.cos(a[i]) * x[i]

    return k


@shape("memory", "read, then overwritten by the same iteration", how="tape", b=real([1.0, 2.0, 0.5, -1.0, 3.0]))
def read_then_overwritten(x, y, b):
    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] * b[i]
            b[i] += 10.0

    return k


@shape(
    "memory",
    "`while x[i] > 1: x[i] *= .5`, with a factor that depends on the element",
    how="tape",
    x=real([3.0, 0.7, 9.0, 1.2, 0.9]),
)
def while_element_is_large(x):
    @sg.kernel
    def k():
        for i in x:
            while x[i] > 1.0:
                x[i] *= 0.5 + 0.01 * x[i]

    return k


@shape("memory", "a bound that is read, looped over and then cleared", how="tape")
def bound_cleared(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = sg.sin(v) + 0.2
            y[i] += v
            n[i] = 0

    return k


@shape("memory", "values turned around in place, by a serial loop", how="tape")
def permuted_in_place(x):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(2):
                a = x[i]
                x[i] = sg.sin(x[4 - i]) * a
                x[4 - i] = a

    return k


@shape("memory", "a serial sweep through an array, each element from the one before", how="tape")
def sweep_in_place(x):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(1, 5):
                x[i] = x[i] * x[i - 1] + 0.2

    return k


@shape("memory", "a sum in place over another array: `x[i] += y[j]`")
def summed_in_place(x, w, n):
    @sg.kernel
    def k():
        for i in x:
            for j in range(n[i]):
                x[i] += w[j]

    return k


@shape("memory", "`s[t + 1]` from `s[t]` in a serial loop", s=real([0.8, 9.0, 9.0, 9.0, 9.0, 9.0]), c=ints(4))
def time_indexed(s, x, c):
    @sg.kernel
    def k():
        for _ in range(1):
            for t in range(c[None]):
                s[t + 1] = s[t] * s[t] * x[t] + 0.3

    return k


@shape(
    "memory",
    "a row of an array from the row before, the row being an argument",
    calls=((0,), (1,), (2,)),
    s=real([[0.8, 0.4, 0.6], [9.0, 8.0, 7.0], [6.0, 5.0, 4.0], [3.0, 2.0, 1.0]]),
)
def time_indexed_by_argument(s, n):
    @sg.kernel
    def k(t: sg.i32):
        for i in range(3):
            v = s[t, i] * s[t, (i + 1) % 3]
            for _ in range(n[i]):
                v = sg.sin(v) + 0.1
            s[t + 1, i] = v

    return k


@shape("memory", "an element swapped with one of another field: both are read before either is written", how="tape")
def fields_swapped(x, y):
    @sg.kernel
    def k():
        for i in x:
            a = x[i]
            x[i] = y[i] * y[i]
            y[i] = a * a

    return k


@shape("memory", "three parallel loops that pass values on by two fields", how="tape")
def several_parallel_loops(x, y):
    @sg.kernel
    def k():
        for i in x:
            y[i] = x[i] * x[i]
        for i in x:
            x[i] = sg.sin(x[i]) * y[(i + 1) % 5]
        for i in x:
            y[i] = x[(i + 2) % 5] * y[i]

    return k


@shape("memory", "an intermediate field in one kernel", a=real([9.0, 8.0, 7.0, 6.0, 5.0]))
def intermediate_field(x, y, a):
    @sg.kernel
    def k():
        for i in x:
            a[i] = 2.0 * x[i] * x[i]
        for i in x:
            y[i] = a[(i + 1) % 5] * a[i]

    return k


@shape("memory", "a grid cleared, filled and read in one kernel", g=real([5.0, 4.0, 3.0]), p=ints([0, 2, 0, 1, 2]))
def grid_rebuilt(x, y, g, p):
    @sg.kernel
    def k():
        for i in g:
            g[i] = 0.0
        for i in x:
            g[p[i]] += x[i] * x[i]
        for i in x:
            y[i] += g[p[i]] * x[i]

    return k


@shape("memory", "gathered through an index, the same element more than once", p=ints([3, 3, 0, 1, 3]))
def gather_duplicates(x, y, p):
    @sg.kernel
    def k():
        for i in y:
            y[i] += x[p[i]] * x[p[(i + 1) % 5]]

    return k


@shape("memory", "gathered in a loop, the index is what the loop carries", p=ints([3, 2, 0, 1, 1]))
def gather_chain(x, y, n, p):
    @sg.kernel
    def k():
        for i in x:
            at = i
            v = 1.0
            for _ in range(n[i]):
                v = v * x[at] + 0.1
                at = p[at]
            y[i] += v * x[at]

    return k


@shape("memory", "a stencil from one field to another one, with steps in between")
def stencil(x, y):
    @sg.kernel
    def k():
        for i in range(1, 4):
            y[i] = x[i - 1] * x[i + 1] - x[i] * x[i]

    return k


@shape(
    "memory",
    "elements of a field of vectors, updated component by component",
    how="tape",
    p=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9]], rank=1),
)
def vector_element_in_place(p, n):
    @sg.kernel
    def k():
        for i in p:
            for _ in range(n[i]):
                p[i].x = p[i].x * p[i].y
                p[i] = p[i].yx * 0.9 + 0.1

    return k


@shape(
    "memory",
    "an ndarray as argument, overwritten in place",
    how="tape",
    calls=(("a", 2), ("a", 3)),
    a=real([0.3, 0.7, 0.4], ndarray=True),
)
def ndarray_in_place(a):
    @sg.kernel
    def k(a: sg.types.ndarray(), n: sg.i32):
        for i in range(a.shape[0]):
            for _ in range(n):
                a[i] = a[i] * a[i] + 0.2

    return k


@shape(
    "memory",
    "one array passed twice, read by one name and written by the other",
    calls=(("a", "a"),) * 2,
    how="tape",
    a=real([0.3, 0.7, 0.4, 0.2], ndarray=True),
)
def aliases(a):
    @sg.kernel
    def k(a: sg.types.ndarray(), b: sg.types.ndarray()):
        for i in range(4):
            b[i] = a[i] * a[i]

    return k
