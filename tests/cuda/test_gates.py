"""Test gated tasks on a device: they run over the list of passing iterations if these are few, else over all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue.trip_counts import by_iteration
from on_emulator import runtime
from recorded_support import gradient, memory_of, near
from stackgrad.backends.cuda.driver import Driver

sys.path.append(str(Path(__file__).parent.parent / "runtime"))
from gate_kernels import GATES, Data, check_gradient, nothing_else, slopes  # noqa: E402

STEPS = 8


def launched(driver: Any, kernel: Callable[[], None]) -> list[str]:
    """Return the entry points that a call launches, without the kernel's name."""
    before = len(driver.launches)
    kernel()
    return ["_".join(name.split("_")[-2:]) for name, *_ in driver.launches[before:]]


def gated(active: sg.Field, trips: sg.Field) -> tuple[sg.Kernel, sg.Field, sg.Field]:
    """Return a kernel whose iterations do nothing unless they pass its gate, and its input and output."""
    x, y = (sg.field(sg.f32, active.shape, needs_grad=True) for _ in range(2))
    x.from_numpy(np.linspace(0.1, 1.4, active.shape[0], dtype=np.float32))

    return nothing_else(x, y, active, trips), x, y


def filled(active: np.ndarray, trips: np.ndarray) -> tuple[sg.Field, sg.Field]:
    gate, n = (sg.field(sg.i32, len(active)) for _ in range(2))
    gate.from_numpy(active.astype(np.int32))
    n.from_numpy(trips.astype(np.int32))
    return gate, n


def run(driver: Driver, k: sg.Kernel, x: sg.Field, y: sg.Field) -> list[str]:
    k()
    x.grad.fill(0)
    y.grad.fill(1)
    return launched(driver, k.grad)


def check(k: sg.Kernel, x: sg.Field, y: sg.Field, chosen: np.ndarray, trips: np.ndarray) -> None:
    """Assert that the gradient is that of the closed form, but for rounding."""
    size = len(chosen)
    before = {
        "x.grad": np.zeros(size, np.float32),
        "y.grad": np.ones(size, np.float32),
        "gate": chosen.astype(np.int32),
        "trips": trips.astype(np.int32),
    }
    expected = np.where(chosen, slopes(x.to_numpy(), trips, chosen), 0)
    near(gradient(k.ir(), memory_of(x=x, y=y) | before), "x.grad", x.grad.to_numpy(), expected)


@pytest.mark.parametrize("passing", [0, 1, 49, 50, 51, 100])
def test_few_are_listed_and_many_run_in_place(passing: int) -> None:
    chosen = np.zeros(100, bool)
    chosen[np.random.default_rng(2).permutation(100)[:passing]] = True
    trips = np.full(100, STEPS)
    with runtime(default_fp=sg.f32) as (_, driver):
        k, x, y = gated(*filled(chosen, trips))
        entries = run(driver, k, x, y)
        assert [e for e in entries if e != "task_0"] == (["select_0", "listed_0"] if passing <= 50 else [])
        check(k, x, y, chosen, trips)
        (use,) = sg.adstack_report().tasks
        assert (use.passing, use.stride) == (passing, 4 * STEPS if passing else 0)
        assert use.rows == (-(-passing // 32) * 32 if 0 < passing <= 50 else 0 if not passing else 128)


def test_more_that_pass_than_have_room_run_over_all_iterations() -> None:
    """Those that pass and push nothing are not counted."""
    chosen, trips = np.ones(3000, bool), np.zeros(3000, int)
    trips[::100] = STEPS
    with runtime(default_fp=sg.f32) as (_, driver):
        k, x, y = gated(*filled(chosen, trips))
        assert "listed_0" in run(driver, k, x, y)
        check(k, x, y, chosen, trips)
        assert sg.adstack_report().tasks[0].passing == 30


def test_what_passes_is_found_at_each_launch() -> None:
    """A gate that is opened changes the list, also in launches that stand ready."""
    trips = np.full(200, STEPS)
    with runtime(default_fp=sg.f32) as (_, driver):
        gate, n = filled(np.zeros(200, bool), trips)
        k, x, y = gated(gate, n)
        for size in (3, 3, 7, 60, 2):
            chosen = np.zeros(200, bool)
            chosen[np.random.default_rng(size).permutation(200)[:size]] = True
            gate.from_numpy(chosen.astype(np.int32))
            for _ in range(3):
                assert "listed_0" in run(driver, k, x, y)
                check(k, x, y, chosen, trips)


@pytest.mark.rotating
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_rows_and_gradients_of_every_form_of_gate(gate: Callable[[Data], Any]) -> None:
    with runtime(default_fp=sg.f64):
        data = Data(sg.f64)
        kernel = gate(data)
        for count, every in ((1, 1), (1000, 20), (3, 2)):
            trips = 1 + np.arange(count, dtype=np.int32) % 7
            chosen = np.arange(count) % every == 0
            data.fill(chosen, trips)
            check_gradient(kernel, data, chosen, trips)
            (use,) = [use for use in sg.adstack_report().tasks if use.stride]
            assert (use.passing, use.stride) == (chosen.sum(), 8 * trips[chosen].max())
            assert use.rows % 32 == 0


def test_threads_are_bounded_whatever_the_width_of_blocks() -> None:
    """65,700 iterations on 65,536 rows: some threads take two, none is without a row."""
    size = 65_700
    with runtime(default_fp=sg.f32) as (_, driver):
        x, y, n = sg.field(sg.f32, size, needs_grad=True), sg.field(sg.f32, size, needs_grad=True), sg.field(sg.i32, ())
        n[None] = 3

        @sg.kernel
        def k() -> None:
            sg.loop_config(block_dim=192)
            for i in range(size):
                v = x[i]
                for _ in range(n[None]):
                    v = 1.25 * sg.sin(v)
                y[i] = v

        start = np.linspace(0.1, 1.4, size, dtype=np.float32)
        x.from_numpy(start)
        run(driver, k, x, y)
        _, blocks, width = next(launch for launch in driver.launches if launch[0].startswith("k_grad_task"))
        (use,) = sg.adstack_report().tasks
        assert blocks * width == use.rows == 65_536
        expected = slopes(start, np.full(size, 3), np.ones(size, bool))
        before = memory_of(x=x, y=y, n=n) | {"x.grad": np.zeros_like(start), "y.grad": np.ones_like(start)}
        near(gradient(k.ir(), before), "x.grad", x.grad.to_numpy(), expected)


def test_one_deep_iteration_does_not_make_all_rows_deep() -> None:
    trips = np.ones(301, int)
    trips[77] = 200_000
    with runtime(default_fp=sg.f32) as (_, driver):
        n = sg.field(sg.i32, 301)
        n.from_numpy(trips.astype(np.int32))
        x, y = (sg.field(sg.f32, 301, needs_grad=True) for _ in range(2))
        x.fill(0.0)

        k = by_iteration(x, y, n)

        run(driver, k, x, y)
        assert [launch[1:] for launch in driver.launches if launch[0] == "k_grad_task_0"] == [(1, 2)]
        assert sg.adstack_report().tasks[0].bytes == 2 * 4 * 200_000
        assert (x.grad.to_numpy() == 1).all()
