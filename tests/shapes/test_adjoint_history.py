"""Lean stores no adjoint history: bytes of a row of each slab, read from the executors after they ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.launching.adstack_usage import SlabUse
from stackgrad.capture import capture
from stackgrad.harness.testing.executors import LaunchExecutor, plain_interpreter, present_backends, reference_executor

pytestmark = pytest.mark.lowering("lean")


def sines(x: Any, y: Any, n: Any, w: Any) -> Any:
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v

    return k


def linear(x: Any, y: Any, n: Any, w: Any) -> Any:
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = 0.95 * v + 0.01
            y[i] = v

    return k


def counting_by_two(x: Any, y: Any, n: Any, w: Any) -> Any:
    @sg.kernel
    def k():
        for i in x:
            v = 0.0
            c = 0
            while c < 2 * n[None]:
                v = v + w[c] * x[i]
                c += 2
            y[i] = v

    return k


def history(make: Callable[..., Any], trips: int, executor: LaunchExecutor) -> list[SlabUse]:
    """What the gradient in single precision kept; its values are right."""
    sg.init(arch="cpu", default_fp=sg.f32)
    x, y, w = (sg.field(sg.f32, size, needs_grad=True) for size in (3, 3, 100))
    n = sg.field(sg.i32, ())
    x.from_numpy(np.array([0.3, -0.4, 0.9], np.float32))
    w.from_numpy(np.linspace(0.5, 1.5, 100, dtype=np.float32))
    n[None] = trips
    kernel = make(x, y, n, w)
    with capture(1) as made:
        kernel()
    (launch,) = made.launches
    seeds = {"y": np.ones(3, np.float32), "x": np.zeros(3, np.float32), "w": np.zeros(100, np.float32)}
    given = {name: seed for name, seed in seeds.items() if name in launch.before}
    found = executor.gradient(launch.kernel, launch.before, launch.after, launch.scalars, launch.draws, given)
    np.testing.assert_allclose(found["x"], slopes(make, x.to_numpy().astype(float), trips), rtol=1e-4)
    return executor.adstacks(launch.kernel)


def strides(make: Callable[..., Any], trips: int, executor: LaunchExecutor) -> dict[str, int]:
    """Bytes of a row in each slab."""
    total: Counter[str] = Counter()
    for use in history(make, trips, executor):
        total[use.slab] += use.stride
    return dict(total)


def slopes(make: Callable[..., Any], x: np.ndarray, trips: int) -> np.ndarray:
    """d y / d x, by the recurrences of the derivatives."""
    v, d = x, np.ones(3)
    if make is counting_by_two:
        return np.full(3, np.linspace(0.5, 1.5, 100)[: 2 * trips : 2].sum())
    for _ in range(trips):
        d = d * 0.95 * (np.cos(v) if make is sines else 1.0)
        v = (np.sin(v) if make is sines else v) * 0.95 + 0.01
    return d


def cpu() -> LaunchExecutor:
    ((executor,), _) = present_backends(["cpu"])
    return executor


LEAN = pytest.mark.parametrize("executor", [reference_executor, cpu], ids=["reference", "cpu"])
TRIPS = pytest.mark.parametrize("trips", [1, 2, 7, 50])


@LEAN
@TRIPS
def test_a_recurrence_keeps_one_number_a_trip(executor: Callable[[], LaunchExecutor], trips: int) -> None:
    assert strides(sines, trips, executor()) == {"real": 4 * trips}


@TRIPS
def test_the_classic_lowering_keeps_primal_and_adjoint(trips: int) -> None:
    """8 bytes a trip, and 8 for the value before the first one."""
    assert strides(sines, trips, plain_interpreter()) == {"real": 8 * (trips + 1)}


@LEAN
@TRIPS
def test_a_linear_recurrence_keeps_nothing(executor: Callable[[], LaunchExecutor], trips: int) -> None:
    assert sum(strides(linear, trips, executor()).values()) == 0


@LEAN
@TRIPS
def test_a_counter_keeps_nothing(executor: Callable[[], LaunchExecutor], trips: int) -> None:
    """`c += 2`, which is an index and decides the loop."""
    assert sum(strides(counting_by_two, trips, executor()).values()) == 0


def test_the_report_says_the_same() -> None:
    """What users read: `sg.adstack_report()`, after a gradient of the runtime's own."""
    sg.init(arch="cpu", default_fp=sg.f32)
    x, y, n = sg.field(sg.f32, 3, needs_grad=True), sg.field(sg.f32, 3, needs_grad=True), sg.field(sg.i32, ())
    n[None] = 9
    kernel = sines(x, y, n, None)
    kernel()
    kernel.grad()
    uses = [use for use in sg.adstack_report().tasks if use.stride]
    assert [(use.slab, use.stride) for use in uses] == [("real", 36)]
    assert uses[0].stacks[0].variable == "v" and uses[0].stacks[0].capacity == 9
