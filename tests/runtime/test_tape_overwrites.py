"""Kernels that overwrite what their own gradient reads: right under a tape, refused when called by hand.

Every program is compared with central differences of the whole program, on each executor, and its final values with
those of a run without a tape.
"""
from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.ad import Tape

ARCHES = ("reference", "cpu")
N = 5
START = np.array([0.3, 0.7, 1.1, 0.5, 0.9])


def make(arch: str) -> SimpleNamespace:
    sg.init(arch=arch, default_fp=sg.f64)
    f = SimpleNamespace()
    f.x = sg.field(sg.f64, (N,), needs_grad=True)
    f.y = sg.field(sg.f64, (N,), needs_grad=True)
    f.v = sg.Vector.field(2, sg.f64, (N,), needs_grad=True)
    f.loss = sg.field(sg.f64, (), needs_grad=True)
    f.c = sg.field(sg.i32, (N,))
    return f


Program = Callable[[SimpleNamespace], list[Any]]


def in_place(f: SimpleNamespace) -> list[Any]:
    x = f.x

    @sg.kernel
    def step():
        for i in x:
            x[i] = sg.exp(-x[i]) * x[i]

    return [step, step]


def until_small(f: SimpleNamespace) -> list[Any]:
    x = f.x

    @sg.kernel
    def halve():
        for i in x:
            while x[i] > 0.1:
                x[i] *= 0.5 + 0.1 * x[i]

    return [halve]


def chain(f: SimpleNamespace) -> list[Any]:
    x = f.x

    @sg.kernel
    def multiply():
        for _ in range(1):
            for i in range(1, N):
                x[i] = x[i] * x[i - 1]

    return [multiply, multiply]


def bound_cleared(f: SimpleNamespace) -> list[Any]:
    x, c = f.x, f.c

    @sg.kernel
    def consume():
        for i in x:
            v = x[i]
            for _ in range(c[i]):
                v = sg.sin(v)
            x[i] = v * v
            c[i] = 0

    return [consume, consume]


def several_tasks(f: SimpleNamespace) -> list[Any]:
    x, y = f.x, f.y

    @sg.kernel
    def step():
        for i in x:
            y[i] = x[i] * x[i]
            x[i] = sg.sin(x[i])
        for i in x:
            x[i] = x[i] * y[(i + 1) % N]
        for i in x:
            y[i] = sg.cos(y[i]) + x[i] * x[i]
            x[i] = y[i] * x[i]

    return [step, step]


def serial_between(f: SimpleNamespace) -> list[Any]:
    x, y = f.x, f.y

    @sg.kernel
    def step():
        total = 0.0
        for i in x:
            total += x[i] * x[i]
        for i in x:
            x[i] = x[i] / (1.0 + total)
        x[0] = x[0] * x[1]
        for i in x:
            y[i] = x[i] * x[i] * total
            if i > 0:
                x[i] = sg.tanh(y[i] * x[0])

    return [step, step]


def rotation(f: SimpleNamespace) -> list[Any]:
    x, v = f.x, f.v

    @sg.kernel
    def start():
        for i in v:
            v[i] = sg.Vector([x[i], 1.0 - x[i]])

    @sg.kernel
    def turn():
        for i in v:
            v[i] = sg.Vector([v[i].x * v[i].y, v[i].x - v[i].y * v[i].y])

    @sg.kernel
    def finish():
        for i in v:
            x[i] = v[i].x * v[i].y

    return [start, turn, turn, finish]


def permutation(f: SimpleNamespace) -> list[Any]:
    """Reversal in place, in a serial loop."""
    x = f.x

    @sg.kernel
    def swap():
        for _ in range(1):
            for i in range(N // 2):
                a = x[i]
                x[i] = x[N - 1 - i] * a
                x[N - 1 - i] = sg.sin(a) * x[i]

    return [swap]


def gated(f: SimpleNamespace) -> list[Any]:
    x, c = f.x, f.c

    @sg.kernel
    def step():
        for i in x:
            if x[i] > 0.6:
                x[i] = x[i] * x[i]
                if c[i] > 1:
                    x[i] = sg.sin(x[i])
            else:
                x[i] = 1.0 / (1.0 + x[i] * x[i])

    return [step, step, step]


PROGRAMS: list[Program] = [
    in_place, until_small, chain, bound_cleared, several_tasks, serial_between, rotation, permutation, gated,
]  # fmt: skip


class Run:
    """A program of launches with the sum of x² at its end as loss."""

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


def differences(run: Run) -> np.ndarray:
    made = []
    for k in range(N):
        h = np.zeros(N)
        h[k] = 1e-6
        made.append((run.value(START + h) - run.value(START - h)) / 2e-6)
    return np.array(made)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("arch", ARCHES)
def test_gradient_under_a_tape(arch: str, program: Program) -> None:
    run = Run(arch, program)
    expected = differences(run)
    final = (run.value(START), run.f.x.to_numpy(), run.f.c.to_numpy())
    assert np.allclose(run.gradient(START), expected, rtol=2e-6, atol=1e-9)
    assert np.array_equal(run.f.x.to_numpy(), final[1]) and np.array_equal(run.f.c.to_numpy(), final[2])
    assert np.allclose(run.gradient(START), expected, rtol=2e-6, atol=1e-9)  # a second pass is the same


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tape_that_is_kept_gives_the_same_again(arch: str) -> None:
    run = Run(arch, several_tasks)
    first = run.gradient(START, retain=True)
    run.tape.grad()
    assert np.array_equal(run.f.x.grad.to_numpy(), first)


@pytest.mark.parametrize("program", [in_place, until_small, chain, several_tasks])
def test_a_gradient_called_by_hand_is_refused(program: Program) -> None:
    run = Run("reference", program)
    run.value(START)
    with pytest.raises(sg.NotDifferentiable, match="overwrite later") as error:
        run.kernels[0].grad()
    assert "sg.ad.Tape" in str(error.value) and __file__ in str(error.value)


def test_what_other_iterations_overwrite_is_refused_under_a_tape_too() -> None:
    f = make("reference")
    x = f.x

    @sg.kernel
    def shift():
        for i in range(N - 1):
            x[i] = x[i] * x[i + 1]

    with pytest.raises(sg.NotDifferentiable, match="iteration"), Tape(f.loss):
        shift()


def test_only_what_is_overwritten_is_kept() -> None:
    """A step that squares one element in place keeps that element."""
    f = make("cpu")
    x, loss = f.x, f.loss

    @sg.kernel
    def square(t: sg.i32):
        for i in range(t, t + 1):
            x[i] = x[i] * x[i]

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i] * x[i]

    x.from_numpy(START)
    with Tape(loss) as tape:
        for t in range(N):
            square(t)
        total()
    assert np.allclose(x.grad.to_numpy(), 4 * START**3)
    assert tape.used_bytes == 8 * N + 0


def test_the_budget_counts_it() -> None:
    f = make("cpu")
    x = f.x
    x.from_numpy(START)

    @sg.kernel
    def step():
        for i in x:
            x[i] = sg.sin(x[i])

    with pytest.raises(sg.TapeError, match="overwrites what its own gradient reads"), Tape(f.loss, budget_bytes=39):
        step()
    assert np.array_equal(x.to_numpy(), START)


def test_what_decides_a_kept_value_must_be_told_by_the_text_too() -> None:
    """No rule reads x[i + 1] itself; but what is stored with it is read again, so its order of iterations counts."""
    f = make("reference")
    x, y = f.x, f.y

    @sg.kernel
    def blend():
        for i in range(N - 1):
            x[i] = x[i] + x[i + 1]
            y[i] = x[i] * x[i]
            x[i] = 0.5 * x[i]

    with pytest.raises(sg.NotDifferentiable, match="iteration"), Tape(f.loss):
        blend()
