# ruff: noqa: B007 - loops that only count
"""Define shapes of memory accesses: atomics, and the values that they return."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape

CELLS = real([0.5, -1.0, 2.0])
PLACES = ints([0, 2, 0, 1, 2])


@shape("memory", "atomic add to shared elements, several lanes to one", g=CELLS, p=PLACES)
def scatter_add(x, g, p):
    @sg.kernel
    def k():
        for i in x:
            g[p[i]] += x[i] * x[i]

    return k


@shape("memory", "atomic sub in a loop, to the element that the loop carries", g=CELLS, p=PLACES)
def scatter_sub(x, g, p, n):
    @sg.kernel
    def k():
        for i in x:
            at = p[i]
            for j in range(n[i]):
                g[at] -= sg.sin(x[i] * (j + 1))
                at = (at + 2) % 3

    return k


@shape(
    "memory",
    "particles to a grid: each spreads over three cells, by weights that depend on it",
    g=real([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    mass=real([1.0, 2.0, 0.5, 1.5, 0.8]),
    x=real([0.3, 1.7, 2.4, 0.9, 2.2]),
)
def particles_to_grid(x, mass, g):
    @sg.kernel
    def k():
        for i in x:
            base = int(x[i])
            f = x[i] - base
            for j in range(3):
                weight = 0.5 * (1.5 - f) ** 2 if j == 0 else (0.75 - (f - 1.0) ** 2 if j == 1 else 0.5 * (f - 0.5) ** 2)
                g[base + j] += weight * mass[i]

    return k


@shape(
    "memory",
    "particles to a grid of vectors and back, in one kernel",
    g=real([[5.0, 4.0]] * 3, rank=1),
    p=PLACES,
    v=real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9], [0.2, 0.6], [0.8, -0.3]], rank=1),
)
def grid_of_vectors(v, y, g, p):
    @sg.kernel
    def k():
        for i in g:
            g[i] = sg.Vector([0.0, 0.0])
        for i in v:
            g[p[i]] += v[i] * v[i].x
        for i in v:
            y[i] += g[p[i]].dot(v[i])

    return k


@shape("memory", "atomic max: who holds the final value takes the gradient", total=real(0.2), calls=((1,), (2,)))
def atomic_max(x, total):
    @sg.kernel
    def k(s: sg.i32):
        for i in x:
            sg.atomic_max(total[None], x[i] * x[i] * s)

    return k


@shape(
    "memory",
    "atomic min, where an element keeps its initial value",
    g=real([9.0, -9.0, 0.6]),
    p=PLACES,
    calls=((1,), (2,)),
)
def atomic_min(x, g, p):
    @sg.kernel
    def k(s: sg.i32):
        for i in x:
            sg.atomic_min(g[p[i]], sg.sin(x[i]) - s)

    return k


@shape("memory", "atomic max in a loop", g=real([0.1, 9.0, 0.2]), p=PLACES, calls=((1,), (2,)))
def atomic_max_in_loop(x, g, p, n):
    @sg.kernel
    def k(s: sg.i32):
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = 1.9 * v * (1.3 - v)
                sg.atomic_max(g[(p[i] + j) % 3], v * s)

    return k


@shape("memory", "atomic mul to shared elements", g=real([1.5, -0.5]), how="tape")
def atomic_mul(x, g):
    @sg.kernel
    def k():
        for i in x:
            g[i % 2] *= sg.sin(x[i])

    return k


@shape("memory", "atomic mul of an iteration's own element, in a loop", how="tape")
def atomic_mul_own(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            for j in range(n[i]):
                y[i] *= x[i] + 0.1 * j

    return k


@shape("memory", "the value that an atomic add returned, of an iteration's own element")
def returned_own(x, y, z):
    @sg.kernel
    def k():
        for i in x:
            old = sg.atomic_add(y[i], x[i] * x[i])
            z[i] = old * 2.0

    return k


@shape("memory", "the value that an atomic returned, squared: the old content counts", how="tape")
def returned_own_squared(x, y, z):
    @sg.kernel
    def k():
        for i in x:
            old = sg.atomic_add(y[i], x[i] * x[i])
            z[i] = old * old * x[i]

    return k


@shape("memory", "an exchange of an iteration's own element")
def exchanged_own(x, y, z):
    @sg.kernel
    def k():
        for i in x:
            old = sg.atomic_exchange(y[i], x[i] * x[i])
            z[i] = old + 2.0 * y[i]

    return k


@shape("memory", "the value that an atomic add returned, in a serial loop", how="tape", total=real(0.75))
def returned_in_serial_loop(x, y, total):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(5):
                old = sg.atomic_add(total[None], x[i] * x[i])
                y[i] = old * old

    return k


@shape(
    "memory",
    "slots that a counter hands out, in a serial loop: what the atomic returned is an index",
    how="tape",
    count=ints(0),
    y=real([2.0, -1.0, 0.5, 3.0, -2.0, 1.0, 0.75, -0.5, 0.25, 1.25]),
)
def returned_slot(x, y, count):
    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(5):
                if x[i] > 0.35:
                    slot = sg.atomic_add(count[None], 1)
                    y[slot] = x[i] * x[i]

    return k


@shape("memory", "the value that an atomic add returned, between iterations", how="tape", ordered=True)
def returned_between_iterations(x, y, total):
    @sg.kernel
    def k():
        for i in x:
            old = sg.atomic_add(total[None], x[i])
            y[i] = old * x[i]

    return k


@shape(
    "memory",
    "slots that counters hand out between iterations: what the atomic returned is an index",
    how="tape",
    ordered=True,
    count=ints([0, 0, 0]),
    p=PLACES,
    y=real([[2.0, -1.0, 0.5, 3.0, -2.0, 1.0], [1.0, 0.5, -0.5, 1.5, 0.25, 2.0], [0.5, 2.5, 1.0, -1.0, 0.75, 3.0]]),
)
def returned_slot_between_iterations(x, y, count, p):
    @sg.kernel
    def k():
        for i in x:
            if x[i] > 0.35:
                slot = sg.atomic_add(count[p[i]], 1)
                y[p[i], slot] = x[i] * x[i]

    return k


@shape("memory", "an exchange between iterations", how="tape", ordered=True, total=real(0.75))
def exchanged_between_iterations(x, total):
    @sg.kernel
    def k():
        for i in x:
            sg.atomic_exchange(total[None], x[i] * x[i])

    return k


@shape(
    "memory",
    "a chain of exchanges: each iteration gets what the one before it left",
    how="tape",
    ordered=True,
    total=real(0.75),
)
def exchanged_in_a_chain(x, y, total):
    @sg.kernel
    def k():
        for i in x:
            y[i] += sg.atomic_exchange(total[None], x[i] * x[i]) * x[i]

    return k


@shape(
    "memory",
    "an atomic max whose result is stored to again",
    how="tape",
    ordered=True,
    total=real(0.75),
    calls=((1,), (2,)),
)
def maximum_overwritten(x, y, total):
    @sg.kernel
    def k(s: sg.i32):
        for i in x:
            sg.atomic_max(total[None], x[i] * x[i] * s)
        for _ in range(1):
            y[0] = total[None] * 2.0
            total[None] = 0.0

    return k
