"""Kernels that overwrite what their own gradient reads: right under a tape, refused when called by hand.

Every program is compared with central differences of the whole program, on each executor, and its final values with
those of a run without a tape.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.ad import Tape
from state_programs import ARCHES, START, N, Program, Run, differences, make


def in_place(f: SimpleNamespace) -> list[Any]:
    x = f.x

    @sg.kernel
    def step():
        for i in x:
            x[i] = sg.exp(-x[i]) * x[i]

    return [step, step]


def chain(f: SimpleNamespace) -> list[Any]:
    x = f.x

    @sg.kernel
    def multiply():
        for _ in range(1):
            for i in range(1, N):
                x[i] = x[i] * x[i - 1]

    return [multiply, multiply]


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


PROGRAMS: list[Program] = [in_place, chain, several_tasks, serial_between, rotation, gated]


@pytest.mark.rotating
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


@pytest.mark.parametrize("program", [in_place, chain, several_tasks])
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
