"""Define one kernel for each way in which the depth of an adstack can follow from the data of a launch.

Invariant: a `Program` launches the same gradient each time; `change` alters what bounds its loop, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import stackgrad as sg
from kernel_catalogue import trip_counts

SIZE, STEPS, MORE = 40, 5, 9
"""Iterations of each kernel; trips of its loop before and after a change, at most."""


@dataclass(frozen=True)
class Program:
    """A kernel with the data that it is launched on, and functions that launch it or change its loop bound."""

    kernel: Any
    forward: Callable[[], Any]
    reverse: Callable[[], Any]
    change: Callable[[], Any] | None


def _arrays() -> tuple[Any, Any]:
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
    x.fill(0.5)
    y.grad.fill(1.0)
    return x, y


def _numbers(size: Any) -> Any:
    made = sg.field(sg.i32, size)
    made.fill(STEPS)
    return made


def _of(kernel: Any, change: Callable[[], Any] | None) -> Program:
    return Program(kernel, kernel, kernel.grad, change)


def by_constant() -> Program:
    """a number"""
    x, y = _arrays()

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(5):
                v = sg.sin(v)
            y[i] = v

    return _of(k, None)


def by_argument() -> Program:
    """a scalar argument"""
    x, y = _arrays()
    steps = [STEPS]

    @sg.kernel
    def k(n: sg.i32) -> None:
        for i in x:
            v = x[i]
            for _ in range(n):
                v = sg.sin(v)
            y[i] = v

    return Program(k, lambda: k(*steps), lambda: k.grad(*steps), lambda: steps.__setitem__(0, MORE))


def by_extent() -> Program:
    """the shape of an array"""
    x, y = _arrays()
    given = [sg.ndarray(sg.i32, STEPS)]

    @sg.kernel
    def k(n: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            v = x[i]
            for _ in range(n.shape[0]):
                v = sg.sin(v)
            y[i] = v

    def change() -> None:
        given[0] = sg.ndarray(sg.i32, MORE)

    return Program(k, lambda: k(*given), lambda: k.grad(*given), change)


def by_triangle() -> Program:
    """indices of the loops around"""
    x, y = _arrays()

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(i // 2):
                v = sg.sin(v)
            y[i] = v

    return _of(k, None)


def by_element() -> Program:
    """one element of a field"""
    x, y = _arrays()
    n = _numbers(())

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = sg.sin(v)
            y[i] = v

    return _of(k, lambda: n.fill(MORE))


def by_some_elements() -> Program:
    """five elements of a field"""
    n = _numbers(8)
    return _of(trip_counts.by_some_elements(*_arrays(), n), lambda: n.__setitem__(3, MORE))


def by_iteration() -> Program:
    """an element for each iteration"""
    n = _numbers(SIZE)
    return _of(trip_counts.by_iteration(*_arrays(), n), lambda: n.__setitem__(7, MORE))


def by_row_starts() -> Program:
    """row starts, behind a gate"""
    x, y = _arrays()
    gate, start = _numbers(SIZE), sg.field(sg.i32, SIZE + 1)
    start.from_numpy(np.arange(SIZE + 1, dtype=np.int32) * STEPS)

    @sg.kernel
    def k() -> None:
        for i in x:
            if gate[i] > 3:
                v = x[i]
                for _ in range(start[i], start[i + 1]):
                    v = sg.sin(v)
                y[i] = v

    return _of(k, lambda: gate.__setitem__(7, 0))


def by_while() -> Program:
    """a `while` on a value read"""
    n = _numbers(SIZE)
    return _of(trip_counts.by_while(*_arrays(), n), lambda: n.__setitem__(7, MORE))


def by_real() -> Program:
    """a `while` on real arithmetic"""
    x, y = _arrays()

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            while v > 0.01:
                v = v * v
            y[i] = v

    return _of(k, lambda: x.__setitem__(7, 0.9))


def by_written_array() -> Program:
    """an array that the kernel writes"""
    n = _numbers(SIZE)
    return _of(trip_counts.by_written_array(*_arrays(), n), lambda: n.__setitem__(7, MORE))


def by_foreign_array() -> Program:
    """an element for each iteration, in an array of NumPy"""
    x, y = _arrays()
    n = np.full(SIZE, STEPS, np.int32)

    @sg.kernel
    def k(n: sg.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = sg.sin(v)
            y[i] = v

    return Program(k, lambda: k(n), lambda: k.grad(n), lambda: n.__setitem__(7, MORE))


PROGRAMS = (
    by_constant,
    by_argument,
    by_extent,
    by_triangle,
    by_element,
    by_some_elements,
    by_iteration,
    by_row_starts,
    by_while,
    by_real,
    by_written_array,
    by_foreign_array,
)
"""Named by their docstrings."""
