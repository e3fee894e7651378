"""What compilers of differentiable kernels are known to get wrong on Vulkan, one test each: branches, lanes, types.

Gradients are compared with closed forms or with the same recurrence in NumPy, never with another backend of ours alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from known_support import Recorded, fields, recorded
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.shaders import LOCAL_SIZE, generate
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.nodes import StackAlloca
from stackgrad.compiler.ir.types import u1
from stackgrad.compiler.ir.walk import walk_kernel

Array = np.ndarray
__all__ = ["recorded"]


# ---- what is made in one place and used in another ------------------------------------------------------------


def test_a_value_loaded_in_one_arm_is_no_value_of_the_other(recorded: Recorded) -> None:
    """Both arms load one element; what a generator keeps of the first dominates nothing in the second."""
    n = 200
    gate, x, y = fields(n, n, n)

    @sg.kernel
    def arms() -> None:
        for i in x:
            if gate[i] > 0.0:
                y[i] += x[i] * x[i]
            else:
                y[i] += sg.sin(x[i]) * x[i]
            y[i] += 3.0 * x[i]

    at, side = np.linspace(-2, 2, n), np.where(np.arange(n) % 3, 1.0, -1.0)
    x.from_numpy(at)
    gate.from_numpy(side)
    y.grad.fill(1.0)
    arms()
    arms.grad()
    recorded.near("y", np.where(side > 0, at * at, np.sin(at) * at) + 3 * at)
    recorded.near("x.grad", np.where(side > 0, 2 * at, np.cos(at) * at + np.sin(at)) + 3)


def test_a_bound_loaded_in_one_arm_is_none_of_the_other(recorded: Recorded) -> None:
    """The trip count of a loop in either arm stands in one element."""
    n = 130
    x, y = fields(n, n)
    trips = sg.field(sg.i32, shape=n)

    @sg.kernel
    def arms() -> None:
        for i in x:
            v = x[i]
            if i % 2 == 0:
                for _ in range(trips[i]):
                    v = v * 1.5
            else:
                for _ in range(trips[i]):
                    v = v * v * 0.5
            y[i] = v

    at, count = np.linspace(0.3, 1.9, n), np.arange(n) % 5
    x.from_numpy(at)
    trips.from_numpy(count.astype(np.int32))
    y.grad.fill(1.0)
    arms()
    arms.grad()
    value, slope = at.copy(), np.ones(n)
    for step in range(5):
        runs, even = step < count, np.arange(n) % 2 == 0
        slope = np.where(runs, slope * np.where(even, 1.5, value), slope)
        value = np.where(runs, np.where(even, value * 1.5, value * value * 0.5), value)
    recorded.near("y", value)
    recorded.near("x.grad", slope)


# ---- lanes and tasks ------------------------------------------------------------------------------------------


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gradients_of_distinct_lanes_over_many_workgroups(recorded: Recorded, dtype: str) -> None:
    """Nothing collapses to the first lane: inputs, trip counts and arms differ; more iterations than threads."""
    n = 64 * LOCAL_SIZE + 17
    t = getattr(sg, dtype)
    x, y = fields(n, n, dtype=t)
    trips = sg.field(sg.i32, shape=n)

    @sg.kernel
    def sweep() -> None:
        for i in x:
            v = x[i]
            for _ in range(trips[i]):
                if v > 0.4:
                    v = sg.sin(v)
                else:
                    v = v * (1.5 - v)
            y[i] = v

    np_t = np.dtype(np.float32 if dtype == "f32" else np.float64)
    at, count = np.linspace(0.05, 1.4, n).astype(np_t), np.arange(n) * 7 % 9
    x.from_numpy(at)
    trips.from_numpy(count.astype(np.int32))
    y.grad.fill(1.0)
    sweep()
    sweep.grad()
    value, slope = at.copy(), np.ones(n, np_t)
    for step in range(9):
        runs, high = step < count, value > np_t.type(0.4)
        slope = np.where(runs, slope * np.where(high, np.cos(value), 1.5 - 2 * value), slope)
        value = np.where(runs, np.where(high, np.sin(value), value * (np_t.type(1.5) - value)), value)
    recorded.near("y", value)
    recorded.near("x.grad", slope)


def test_sums_of_all_lanes_into_one_element(recorded: Recorded) -> None:
    """One adjoint for all lanes, and one element that all lanes add to, over more than one workgroup."""
    n = 9 * LOCAL_SIZE + 5
    x, scale, y = fields(n, (), ())

    @sg.kernel
    def weighted() -> None:
        for i in x:
            y[None] += scale[None] * x[i] * x[i]

    at = np.linspace(-1, 3, n)
    x.from_numpy(at)
    scale[None] = 0.25
    y.grad[None] = 2.0
    weighted()
    weighted.grad()
    recorded.near("x.grad", 2.0 * 0.25 * 2 * at)
    recorded.near("y", 0.25 * (at * at).sum())
    recorded.near("scale.grad", 2.0 * (at * at).sum())


@pytest.mark.expensive
def test_two_tasks_with_different_stacks(recorded: Recorded) -> None:
    """One saves doubles, indices and conditions, the other floats and doubles; neither sees what is the other's."""
    n, m = 150, 90
    x, y, q = fields(n, n, m)
    p, u = fields(m, m, dtype=sg.f32)
    trips = sg.field(sg.i32, shape=n)

    @sg.kernel
    def both() -> None:
        for i in x:
            v = x[i]
            for k in range(trips[i]):
                if v * v > 0.5:
                    v = sg.cos(v)
                else:
                    v = v + 0.25 * k
            y[i] = v
        for j in p:
            single, double = p[j], q[j]
            for _ in range(3):
                single = single * single
                double = sg.sin(double) * double
            u[j] = single * sg.cast(double, sg.f32)

    at, count, p0, q0 = np.linspace(-1.5, 1.5, n), np.arange(n) % 6, np.linspace(0.8, 1.2, m), np.linspace(0.4, 2, m)
    p0 = p0.astype(np.float32).astype(np.float64)
    for array, content in ((x, at), (p, p0.astype(np.float32)), (q, q0), (trips, count.astype(np.int32))):
        array.from_numpy(content)
    y.grad.fill(1.0)
    u.grad.fill(1.0)
    both()
    both.grad()
    recorded.near("x.grad", _slopes_of_the_first(at, count))
    value, slope = q0.copy(), np.ones(m)
    for _ in range(3):
        value, slope = np.sin(value) * value, slope * (np.cos(value) * value + np.sin(value))
    recorded.near("p.grad", value * 8 * p0**7)
    recorded.near("q.grad", p0**8 * slope)


def _slopes_of_the_first(at: Array, count: Array) -> Array:
    value, slope = at.copy(), np.ones(len(at))
    for step in range(6):
        runs, high = step < count, value * value > 0.5
        slope = np.where(runs & high, -slope * np.sin(value), slope)
        value = np.where(runs, np.where(high, np.cos(value), value + 0.25 * step), value)
    return slope


# ---- size of modules ------------------------------------------------------------------------------------------


def carried(count: int, folder: Path) -> tuple[Any, Any, Any]:
    """A kernel that carries so many floats through two nested loops, each fed by its neighbor; its x and y."""
    x, y = fields((8, count), (8, count))
    lines = ["@sg.kernel", "def carry():", "    for i in range(8):"]
    lines += [f"        v{k} = x[i, {k}]" for k in range(count)]
    lines += ["        for a in range(2):", "            for b in range(a + 1):"]
    lines += [f"                v{k} = 0.5 * v{k} * v{(k + 1) % count} + 0.25" for k in range(count)]
    lines += [f"        y[i, {k}] = v{k}" for k in range(count)]
    path = folder / f"carry{count}.py"
    path.write_text("\n".join(lines))
    names: dict[str, Any] = {"sg": sg, "x": x, "y": y}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["carry"], x, y


@pytest.mark.expensive
def test_64_carried_floats_in_two_nested_loops(recorded: Recorded, tmp_path: Path) -> None:
    """Modules grow with the number of carried values, not with its square; and the gradient is right."""

    def words(count: int) -> int:
        return len(generate(prepare_reverse(carried(count, tmp_path)[0].ir()).kernel, Options()).words)

    assert words(64) < 8 * words(8)
    kernel, x, y = carried(64, tmp_path)
    at = np.linspace(0.1, 1.1, 8 * 64).reshape(8, 64)
    x.from_numpy(at)
    y.grad.fill(1.0)
    kernel()
    kernel.grad()
    value, steps = at.copy(), []
    for _ in range(3):
        steps.append(value.copy())
        for k in range(64):
            value[:, k] = 0.5 * value[:, k] * value[:, (k + 1) % 64] + 0.25
            steps.append(value.copy())
    recorded.near("y", value)
    recorded.near("x.grad", _pulled_back(steps))


def _pulled_back(steps: list[Array]) -> Array:
    """The adjoint of the first state for ones as cotangent of the last. steps: what each assignment found and left."""
    adjoint = np.ones_like(steps[0])
    for sweep in reversed(range(3)):
        for k in reversed(range(64)):
            before, here, other = steps[65 * sweep + k], k, (k + 1) % 64
            own = adjoint[:, here].copy()
            adjoint[:, here] = own * 0.5 * before[:, other]
            adjoint[:, other] += own * 0.5 * before[:, here]
    return adjoint


# ---- types ----------------------------------------------------------------------------------------------------


def test_sines_of_doubles(recorded: Recorded) -> None:
    """To the last digits, small and large arguments, values and derivatives."""
    at = np.concatenate([np.linspace(-9, 9, 301), [1e-9, 1e5, -3e8, 1e15]])
    x, y, z = fields(len(at), len(at), len(at))

    @sg.kernel
    def waves() -> None:
        for i in x:
            y[i] = sg.sin(x[i])
            z[i] = sg.cos(x[i])

    x.from_numpy(at)
    y.grad.fill(1.0)
    z.grad.fill(0.5)
    waves()
    waves.grad()
    recorded.near("y", np.sin(at))
    recorded.near("z", np.cos(at))
    recorded.near("x.grad", np.cos(at) - 0.5 * np.sin(at))


def test_stacks_of_conditions(recorded: Recorded) -> None:
    """Which arm was taken is saved by slots of one bit's type, in neighboring bytes of neighboring lanes."""
    n = 5 * LOCAL_SIZE + 3
    x, y = fields(n, n)
    trips = sg.field(sg.i32, shape=n)

    @sg.kernel
    def folds() -> None:
        for i in x:
            v = x[i]
            for _ in range(trips[i]):
                if v > 0.5:
                    v = 2.0 * (1.0 - v)
                else:
                    v = 2.0 * v
            y[i] = v

    lowered = prepare_reverse(folds.ir()).kernel
    assert any(isinstance(s, StackAlloca) and s.dtype == u1 for s in walk_kernel(lowered))
    at, count = np.arange(n) * 0.618 % 1, np.arange(n) % 11
    x.from_numpy(at)
    trips.from_numpy(count.astype(np.int32))
    y.grad.fill(1.0)
    folds()
    folds.grad()
    value, slope = at.copy(), np.ones(n)
    for step in range(11):
        runs, high = step < count, value > 0.5
        slope = np.where(runs, slope * np.where(high, -2, 2), slope)
        value = np.where(runs, np.where(high, 2 * (1 - value), 2 * value), value)
    np.testing.assert_array_equal(x.grad.to_numpy(), slope)
    assert set(slope) > {-4.0, 4.0, 1024.0}
