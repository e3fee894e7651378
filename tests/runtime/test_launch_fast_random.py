"""Random programs of launches that could stand ready, and of everything that ends them: each result as in NumPy.

Two kernels with the same body, of which the second launches from Python alone, must agree in results and counters too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import Line, looks, native_of, sines, site_of
from recorded_support import forward, gradient, memory_of, near
from stackgrad.backends.host.trampoline import trampoline
from stackgrad.capture import capture
from stackgrad.harness.testing.bounds import BoundedResult

SIZES = (1, 5, 16)


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(trampoline(), "patience", 1 << 62)


def _kernel(own: Any, total: Any) -> Any:
    @sg.kernel
    def run(x: Line, y: Line, n: Line, times: sg.i32, factor: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for i in range(x.shape[0]):
            v = x[i]
            for _ in range(n[i] + own[None] + times):
                v = sg.sin(v) * factor
            y[i] = v
        for i in range(x.shape[0]):
            total[None] += y[i]

    return run


class Machine:
    """The state of a program: arrays of some sizes, the bounds, and the two kernels."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.own, self.total = sg.field(sg.i32, ()), sg.field(sg.f64, (), needs_grad=True)
        self.fast, self.slow = _kernel(self.own, self.total), _kernel(self.own, self.total)
        self.sets = [self.arrays(size) for size in SIZES]
        self.now, self.times, self.factor = 0, 1, 1.0
        self.views: list[np.ndarray] = []
        self.launches = 0

    def arrays(self, size: int) -> list[Any]:
        x, y = (sg.ndarray(sg.f64, size, True) for _ in range(2))
        n = sg.ndarray(sg.i32, size)
        x.from_numpy(self.random.uniform(0.2, 1.2, size))
        n.from_numpy(self.random.integers(0, 4, size).astype(np.int32))
        return [x, y, n]

    # -- what happens between launches -----------------------------------------------------------------------

    def set_bound(self) -> None:
        n = self.sets[self.now][2]
        n[int(self.random.integers(len(n)))] = int(self.random.integers(0, 6))

    def fill_bound(self) -> None:
        self.sets[self.now][2].fill(int(self.random.integers(0, 6)))

    def set_own(self) -> None:
        self.own[None] = int(self.random.integers(0, 3))

    def write_view(self) -> None:
        if not self.views:
            self.views.append(self.own.to_numpy(copy=False))
        self.views[0][()] = int(self.random.integers(0, 3))

    def change_numbers(self) -> None:
        self.times = int(self.random.integers(0, 3))
        self.factor = [0.9, 1.1, -0.0, 1, True, np.float32(0.5)][int(self.random.integers(6))]

    def other_arrays(self) -> None:
        self.now = int(self.random.integers(len(self.sets)))

    def fresh_arrays(self) -> None:
        self.sets[self.now] = self.arrays(SIZES[self.now])

    def new_content(self) -> None:
        x = self.sets[self.now][0]
        x.from_numpy(self.random.uniform(0.2, 1.2, len(x)))

    def swap(self) -> None:
        x, y, n = self.sets[self.now]
        self.sets[self.now] = [y, x, n]

    def under_a_tape(self) -> None:
        x, y, n = self.sets[self.now]
        self.reset()
        with sg.ad.Tape(self.total):
            self.fast(x, y, n, self.times, self.factor)
        self.launches += 1
        self.slow(x, y, n, self.times, self.factor)
        self.slow.grad(x, y, n, self.times, self.factor)  # the counters stay alike

    def captured(self) -> None:
        with capture(limit=1):
            self.launch()

    # -- launches ----------------------------------------------------------------------------------------------

    def reset(self) -> None:
        x, y, _ = self.sets[self.now]
        self.total.fill(0.0)
        self.total.grad.fill(1.0)
        x.grad.fill(0.0)
        y.grad.fill(0.0)

    def launch(self) -> None:
        """Both kernels, forward and back; results as in NumPy, but for rounding."""
        x, y, n = self.sets[self.now]
        expected, known = self.expected(), None
        for kernel in (self.slow, self.fast):
            self.reset()
            before = memory_of(x=x, y=y, n=n, own=self.own, total=self.total)
            versions = y.version, x.grad.version
            kernel(x, y, n, self.times, self.factor)
            left = y.to_numpy(), self.total.to_numpy()
            kernel.grad(x, y, n, self.times, self.factor)
            known = known or self.known(kernel, before)
            for bounds, name, found, form in zip(known, ("y", "total", "x.grad"), (*left, x.grad.to_numpy()), expected):
                near(bounds, name, found, form)
            assert versions[0] != y.version and versions[1] != x.grad.version
        self.launches += 1

    def known(self, kernel: Any, before: dict[str, np.ndarray]) -> tuple[BoundedResult, BoundedResult, BoundedResult]:
        """Bounds of both arrays that a launch writes, and of the gradient."""
        numbers = {"times": int(self.times), "factor": float(self.factor)}
        left = forward(kernel.ir(), before, numbers)
        return left, left, gradient(kernel.ir(), before, numbers)

    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, _, n = self.sets[self.now]
        value, slope = sines(x.to_numpy(), n.to_numpy() + self.own[None] + self.times, float(self.factor))
        return value, value.sum(), slope


def _compare_counters(machine: Machine) -> None:
    fast, slow = machine.fast.stats(), machine.slow.stats()
    assert fast.launches == slow.launches and fast.grad_launches == slow.grad_launches
    assert looks(fast) == looks(slow) and fast.cache_hits == slow.cache_hits


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(6))
def test_launches_between_all_that_ends_them(seed: int) -> None:
    machine = Machine(seed)
    events: list[Callable[[], None]] = [
        machine.set_bound,
        machine.fill_bound,
        machine.set_own,
        machine.change_numbers,
        machine.other_arrays,
        machine.fresh_arrays,
        machine.new_content,
        machine.swap,
        machine.under_a_tape,
        machine.captured,
    ]
    if seed % 3 == 2:
        events.append(machine.write_view)
    machine.launch()
    for site in (site_of(machine.slow), site_of(machine.slow, True)):
        site._wait = 1 << 60
    launched = 0
    for _ in range(30):
        events[int(machine.random.integers(len(events)))]()
        before = native_of(machine.fast, True).launched
        for _ in range(int(machine.random.integers(1, 7))):
            machine.launch()
        launched += max(native_of(machine.fast, True).launched - before, 0)
    _compare_counters(machine)
    assert native_of(machine.slow).function is None
    assert launched > 10 or machine.views
