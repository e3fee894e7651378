"""Kernels whose launches stand ready in machine code, and how many of them did without Python."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import stackgrad as sg
from stackgrad.native import PATIENT

READY = PATIENT + 1
"""Launches after which the next one is native."""


def native_of(kernel: Any, is_grad: bool = False) -> Any:
    """The standing launches of a kernel in one direction."""
    return kernel._reverse if is_grad else kernel._forward


@contextmanager
def natively(kernel: Any, count: int, is_grad: bool = False) -> Iterator[None]:
    """What happens inside makes so many native launches, by handles that stand before and after."""
    before = native_of(kernel, is_grad).launched
    yield
    assert native_of(kernel, is_grad).launched - before == count


def repeat(call: Callable[[], Any], times: int = READY) -> None:
    """Launch until a launch stands ready."""
    for _ in range(times):
        call()


class Steps:
    """y[i] = sin applied to x[i], `n[None]` times; `scaled` with numbers of the call. The gradient needs the steps."""

    def __init__(self, size: int = 16) -> None:
        x, y = (sg.field(sg.f64, size, needs_grad=True, name=name) for name in "xy")
        n = sg.field(sg.i32, (), name="n")
        self.x, self.y, self.n = x, y, n
        x.from_numpy(np.arange(size) * 0.1 + 0.3)
        n[None] = 4

        @sg.kernel
        def run():  # type: ignore[no-untyped-def]
            for i in x:
                v = x[i]
                for _ in range(n[None]):
                    v = sg.sin(v)
                y[i] = v

        @sg.kernel
        def scaled(times: sg.i32, factor: sg.f64):  # type: ignore[no-untyped-def, valid-type]
            for i in x:
                v = x[i]
                for _ in range(times):
                    v = sg.sin(v) * factor
                y[i] = v

        self.run, self.scaled = run, scaled

    def check(self, times: int, factor: float = 1.0) -> None:
        np.testing.assert_allclose(self.y.to_numpy(), sines(self.x.to_numpy(), times, factor)[0], rtol=1e-13)

    def check_grad(self, times: int, factor: float = 1.0) -> None:
        """The gradient was added once to x.grad, which was 0."""
        np.testing.assert_allclose(self.x.grad.to_numpy(), sines(self.x.to_numpy(), times, factor)[1], rtol=1e-13)

    def seed(self) -> None:
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)


def sines(x: np.ndarray, times: int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """v = sin(v) * factor, so often, and its derivative."""
    v, d = x.copy(), np.ones_like(x)
    for _ in range(times):
        v, d = np.sin(v) * factor, d * np.cos(v) * factor
    return v, d


Line = sg.types.ndarray(ndim=1)


@sg.kernel
def add(a: Line, b: Line, c: Line):  # type: ignore[no-untyped-def, valid-type]
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


@sg.kernel
def grow(x: Line, y: Line, n: Line):  # type: ignore[no-untyped-def, valid-type]
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(n[i]):
            v = sg.sin(v)
        y[i] = v


def arrays(count: int = 3, size: int = 16, dtype: Any = None, needs_grad: bool = False) -> list[Any]:
    """Ndarrays with different content."""
    made = []
    for k in range(count):
        one = sg.ndarray(dtype or sg.f64, size, needs_grad)
        one.from_numpy((np.arange(size) + 10 * k).astype(one.to_numpy().dtype))
        made.append(one)
    return made


def looks(stats: Any) -> int:
    """How often sizes were found anew, by their expressions or by counting."""
    return stats.evaluations + stats.countings
