"""Define programs whose kernels overwrite contents that gradients read, and judge them by central differences."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import stackgrad as sg
from stackgrad.ad import Tape

ARCHES = ("reference", "cpu")
N = 5
START = np.array([0.3, 0.7, 1.1, 0.5, 0.9])


def make(arch: str) -> SimpleNamespace:
    sg.init(arch=arch, default_fp=sg.f64)
    f = SimpleNamespace()
    f.x = sg.field(sg.f64, (N,), needs_grad=True, name="x")
    f.y = sg.field(sg.f64, (N,), needs_grad=True)
    f.v = sg.Vector.field(2, sg.f64, (N,), needs_grad=True)
    f.loss = sg.field(sg.f64, (), needs_grad=True)
    f.c = sg.field(sg.i32, (N,))
    return f


Program = Callable[[SimpleNamespace], list[Any]]


class Run:
    """Represent a program of launches whose loss is the sum of x² at its end."""

    def __init__(self, arch: str, program: Program) -> None:
        self.f = make(arch)
        self.kernels = program(self.f)
        x, y, loss = self.f.x, self.f.y, self.f.loss

        @sg.kernel
        def total():
            for i in x:
                loss[None] += x[i] * x[i] + 0.5 * y[i]

        self.total = total

    def start(self, x: np.ndarray) -> None:
        self.f.x.from_numpy(x)
        self.f.y.fill(0.0)
        self.f.c.from_numpy(np.array([1, 2, 0, 3, 2], np.int32))
        self.f.loss.fill(0.0)

    def launch(self) -> None:
        for kernel in self.kernels:
            kernel()
        self.total()

    def value(self, x: np.ndarray) -> float:
        self.start(x)
        self.launch()
        return float(self.f.loss[None])

    def gradient(self, x: np.ndarray, **options: Any) -> np.ndarray:
        self.start(x)
        with Tape(self.f.loss, **options) as self.tape:
            self.launch()
        return self.f.x.grad.to_numpy()


def differences(run: Run, at: np.ndarray = START) -> np.ndarray:
    """Return central differences of the whole program at initial contents of x."""
    made = []
    for k in range(N):
        h = np.zeros(N)
        h[k] = 1e-6
        made.append((run.value(at + h) - run.value(at - h)) / 2e-6)
    return np.array(made)
