"""Define kernels whose repeated launches run as machine code, and count launches without Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import stackgrad as sg
from recorded_support import forward, gradient, near
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.launch.callsites import PATIENT

READY = PATIENT + 1
"""Launches after which the next one is native."""


def native_of(kernel: Any, is_grad: bool = False) -> Any:
    """Return the ready launches without guards of a kernel in one direction."""
    return site_of(kernel, is_grad).free


def site_of(kernel: Any, is_grad: bool = False) -> Any:
    """Return the call site of a kernel in one direction."""
    return kernel._reverse if is_grad else kernel._forward


@contextmanager
def natively(kernel: Any, count: int, is_grad: bool = False) -> Iterator[None]:
    """Assert that the `with` block makes this number of launches in machine code."""
    before = native_of(kernel, is_grad).launched
    yield
    assert native_of(kernel, is_grad).launched - before == count


def repeat(call: Callable[[], Any], times: int = READY) -> None:
    """Launch until a ready launch exists."""
    for _ in range(times):
        call()


class Steps:
    """Represent a kernel that applies sin `n[None]` times to each x[i]; its gradient needs the number of steps."""

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
        near_sines(self.x.to_numpy(), times, factor, y=self.y.to_numpy())

    def check_grad(self, times: int, factor: float = 1.0) -> None:
        """Assert that the gradient was added once to x.grad, which was 0 before."""
        near_sines(self.x.to_numpy(), times, factor, slope=self.x.grad.to_numpy())

    def seed(self) -> None:
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)


def sines(x: np.ndarray, times: np.ndarray | int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return v after v = sin(v) * factor is applied a number of times to x, and its derivative."""
    v, d = x.copy(), np.ones_like(x)
    for step in range(np.max(times, initial=0)):
        runs = step < times
        v, d = np.where(runs, np.sin(v) * factor, v), np.where(runs, d * np.cos(v) * factor, d)
    return v, d


RECURRENCE = """kernel recurrence(x: f64[1] grad, y: f64[1] grad, times: i32, factor: f64) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] %4: i32 = arg times %11: i32 = const 0 local v: f64 set v, %3
    for %5: i32 in %11 .. %4 { %6: f64 = get v %7: f64 = sin %6 SCALE }
    %10: f64 = get v store y[%2], %10 } }"""
SCALED = parse_kernel(RECURRENCE.replace("SCALE", "%8: f64 = arg factor %9: f64 = mul %7, %8 set v, %9"))
PLAIN = parse_kernel(RECURRENCE.replace("SCALE", "set v, %7"))


def near_sines(
    x: np.ndarray, times: int, factor: float = 1.0, y: np.ndarray | None = None, slope: np.ndarray | None = None
) -> None:
    """Assert that y and slope are value and derivative of the repeated sine, within error bounds."""
    kernel, scalars = PLAIN if factor == 1.0 else SCALED, {"times": times, "factor": factor}
    memory = {"x": x, "y": np.zeros_like(x), "x.grad": np.zeros_like(x), "y.grad": np.ones_like(x)}
    value, derivative = sines(x, times, factor)
    if y is not None:
        near(forward(kernel, memory, scalars), "y", y, value)
    if slope is not None:
        near(gradient(kernel, memory, scalars), "x.grad", slope, derivative)


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
    """Return ndarrays with different contents."""
    made = []
    for k in range(count):
        one = sg.ndarray(dtype or sg.f64, size, needs_grad)
        one.from_numpy((np.arange(size) + 10 * k).astype(one.to_numpy().dtype))
        made.append(one)
    return made


def looks(stats: Any) -> int:
    """Return how often adstack sizes were found anew, by expressions or by counting."""
    return stats.evaluations + stats.countings
