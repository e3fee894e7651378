"""Define kernels for tests of debug information; each statement stands on its own line."""

from __future__ import annotations

from typing import Any

import stackgrad as sg
from other_file import squared


class Lines:
    """Hold a kernel whose loop calls a function of another file."""

    def __init__(self, size: int = 32) -> None:
        self.x = x = sg.field(sg.f64, shape=size, needs_grad=True)
        self.y = y = sg.field(sg.f64, shape=size, needs_grad=True)
        self.n = n = sg.field(sg.i32, shape=size)
        for i in range(size):
            x[i], n[i] = 0.1 * i, i % 5

        @sg.kernel
        def steps() -> None:
            for i in range(size):
                v = x[i]  # line: load
                for _ in range(n[i]):
                    v = sg.sin(v) + squared(v)  # line: sine
                y[i] = v * 3.0  # line: store

        self.steps: Any = steps

    def gradient(self) -> list[float]:
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)
        self.steps()
        self.steps.grad()
        return [*self.y.to_numpy().tolist(), *self.x.grad.to_numpy().tolist()]
