"""Define kernels whose trip counts come from an array, one for each way in which adstack sizes are found.

Each maker takes fields x, y and n and returns the kernel y[i] = sin(sin(.. x[i])). No entry of the catalogue belongs to
them, because the tests ask how a launch learned the number of trips.
"""

from __future__ import annotations

import stackgrad as sg


def by_iteration(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    """Return a kernel in which the loop of iteration i makes n[i] trips."""

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = sg.sin(v)
            y[i] = v

    return k


def by_while(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    """Return a kernel like `by_iteration` with a `while` loop, whose trip count no expression bounds."""

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            left = n[i]
            while left > 0:
                v = sg.sin(v)
                left -= 1
            y[i] = v

    return k


def by_written_array(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    """Return a kernel that writes the bounds itself, so that it is counted on a copy of them."""
    m = sg.field(sg.i32, n.shape)

    @sg.kernel
    def k() -> None:
        for i in n:
            m[i] = n[i]
        for i in x:
            v = x[i]
            for _ in range(m[i]):
                v = sg.sin(v)
            y[i] = v

    return k


def by_some_elements(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    """Return a kernel in which every iteration makes n[0] + .. + n[4] trips."""

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for j in sg.static(range(5)):
                for _ in range(n[j]):
                    v = sg.sin(v)
            y[i] = v

    return k
