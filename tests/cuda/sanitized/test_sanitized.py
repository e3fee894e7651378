"""One kernel of each kind, small, with results by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import forward, gradient, memory_of, near

N = 100


@pytest.fixture
def x() -> sg.Field:
    field = sg.field(sg.f32, N, needs_grad=True)
    field.from_numpy(np.linspace(0.1, 1.0, N, dtype=np.float32))
    return field


def test_elements_and_sums(x: sg.Field) -> None:
    """Injective stores and a sum into one element, forward and reverse."""
    y, loss = sg.field(sg.f32, N, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def square() -> None:
        for i in x:
            y[i] = x[i] * x[i]

    @sg.kernel
    def total() -> None:
        for i in y:
            loss[None] += y[i]

    square()
    before = memory_of(y=y, loss=loss)
    total()
    loss.grad[None] = 1.0
    total.grad()
    square.grad()
    at = np.linspace(0.1, 1.0, N, dtype=np.float32)
    np.testing.assert_array_equal(before["y"], at * at)  # one rounding, as in NumPy
    near(forward(total.ir(), before), "loss", loss.to_numpy(), before["y"].sum(dtype=np.float64))
    np.testing.assert_array_equal(x.grad.to_numpy(), 2 * at)  # none


@pytest.mark.parametrize("gate", [-1.0, 0.55, 0.95])
def test_history_behind_a_gate(x: sg.Field, gate: float) -> None:
    """Adstacks of all, half and few of the iterations, with trip counts that are read."""
    y, trips = sg.field(sg.f32, N, needs_grad=True), sg.field(sg.i32, N)
    trips.from_numpy((np.arange(N) % 7).astype(np.int32))

    @sg.kernel
    def recur(gate: sg.f32) -> None:
        for i in x:
            v = x[i]
            if x[i] > gate:
                for _ in range(trips[i]):
                    v = sg.sin(v) * 0.95 + 0.01
            y[i] = v

    before = memory_of(x=x, y=y, trips=trips)
    recur(gate)
    y.grad.fill(1.0)
    recur.grad(gate)
    v, slope, part = before["x"].astype(float), np.ones(N), np.float32(0.95)
    for step in range(6):
        runs = (before["x"] > np.float32(gate)) & (step < np.arange(N) % 7)
        slope = np.where(runs, slope * np.cos(v) * part, slope)
        v = np.where(runs, np.sin(v) * part + np.float32(0.01), v)
    near(forward(recur.ir(), before, {"gate": gate}), "y", y.to_numpy(), v)
    before["y.grad"][:] = 1.0
    near(gradient(recur.ir(), before, {"gate": gate}), "x.grad", x.grad.to_numpy(), slope)


def test_arrays_of_the_host() -> None:
    """NumPy arguments are copied to the device and back."""

    @sg.kernel
    def scale(a: sg.types.ndarray(), b: sg.types.ndarray(), k: sg.f32) -> None:
        for i in a:
            b[i] = a[i] * k

    a, b = np.arange(37, dtype=np.float32), np.zeros(37, np.float32)
    scale(a, b, 3.0)
    np.testing.assert_array_equal(b, 3 * a)


def test_local_arrays_and_kernel_locals(x: sg.Field) -> None:
    """Memory of a thread, and numbers that one task leaves to the next."""
    y = sg.field(sg.f32, N, needs_grad=True)

    @sg.kernel
    def spread() -> None:
        s = 0.0
        for i in x:
            s += x[i]
        for i in y:
            v = sg.Vector([0.0, 0.0, 0.0, 0.0])
            for k in range(4):
                v[(i + k) % 4] = x[i] * k
            y[i] = v[i % 4] + v[(i + 3) % 4] + s

    before = memory_of(x=x, y=y)
    spread()
    at = before["x"].astype(float)
    near(forward(spread.ir(), before), "y", y.to_numpy(), 3 * at + at.sum())


def test_errors_reach_the_host() -> None:
    """An index outside, found on the device; later launches are right."""
    sg.init(arch=sg.cuda, debug=True)
    a = sg.field(sg.i32, 4)

    @sg.kernel
    def put(at: sg.i32) -> None:
        for i in range(2):
            a[at + i] = i + 1

    with pytest.raises(sg.OutOfBounds, match="index 4 is outside"):
        put(3)
        sg.sync()
    put(1)
    np.testing.assert_array_equal(a.to_numpy()[1:3], [1, 2])


def test_empty_grids(x: sg.Field) -> None:
    """No iterations: nothing is launched for the task, and what it would have written stays."""
    y = sg.field(sg.f32, N)

    @sg.kernel
    def some(n: sg.i32) -> None:
        for i in range(n):
            y[i] = x[i]

    y.fill(2.0)
    some(0)
    np.testing.assert_array_equal(y.to_numpy(), np.full(N, 2.0, np.float32))
