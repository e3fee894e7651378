"""Test how adstack sizes are found if arrays are on a device: single elements are read back, others counted there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue.trip_counts import by_iteration, by_some_elements, by_while, by_written_array
from on_emulator import runtime

SIZE, STEPS = 40, 5


@pytest.fixture(autouse=True)
def device() -> Iterator[Any]:
    with runtime(default_fp=sg.f32) as (_, driver):
        yield driver


def arrays() -> tuple[sg.Field, sg.Field]:
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
    return x, y


def by_element(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(n[0]):
                v = sg.sin(v)
            y[i] = v

    return k


def by_ranges_and_an_element(x: sg.Field, y: sg.Field, n: sg.Field) -> sg.Kernel:
    """Return a kernel with two depths: the first depends on indices, the second is an element of a field."""

    @sg.kernel
    def k() -> None:
        for i in x:
            v = x[i]
            for _ in range(i * i % 7):
                v = sg.cos(v)
            for _ in range(n[0]):
                v = sg.sin(v)
            y[i] = v

    return k


COSTS = {
    by_element: (0, 1),
    by_some_elements: (0, 2),
    by_ranges_and_an_element: (1, 0),
    by_iteration: (1, 0),
    by_while: (1, 0),
    by_written_array: (1, 0),
}
"""(countings, readbacks) of a look."""


def counts(kernel: sg.Kernel) -> np.ndarray:
    found = kernel.stats()
    return np.array([found.countings, found.readbacks, found.waits, found.growths])


@pytest.mark.parametrize("make", COSTS, ids=lambda make: make.__name__)
def test_a_steady_state_looks_at_nothing_and_a_mutation_once(make: Callable[..., Any], device: Any) -> None:
    n = sg.field(sg.i32, SIZE)
    n.fill(STEPS)
    kernel = make(*arrays(), n)
    kernel()
    kernel.grad()
    countings, readbacks = COSTS[make]
    first = counts(kernel)
    assert first[:2].tolist() == [countings, readbacks]
    pending = device.pending
    for _ in range(5):
        kernel.grad()
    assert (counts(kernel) == first).all() and device.pending >= pending, "no wait, no copy, no count"
    n[0] = STEPS + 100
    kernel()
    for _ in range(5):
        kernel.grad()
    changed = counts(kernel) - first
    assert changed[:2].tolist() == [countings, readbacks] and changed[2] <= 2 and changed[3] == 1


@pytest.mark.parametrize("make", [by_element, by_iteration, by_while, by_written_array], ids=lambda make: make.__name__)
def test_sizes_are_those_of_this_state(make: Callable[..., Any]) -> None:
    n = sg.field(sg.i32, SIZE)
    kernel = make(*arrays(), n)
    for trips in (np.arange(SIZE) % 7, np.full(SIZE, 3), np.zeros(SIZE, int)):
        n.from_numpy(trips.astype(np.int32))
        kernel()
        kernel.grad()
        (use,) = [u for u in sg.adstack_report().tasks if u.slab == "real"]
        deepest = trips[0] if make is by_element else trips.max()
        assert use.stride == 4 * deepest and use.content == 4 * (deepest * SIZE if make is by_element else trips.sum())
        assert use.bytes == use.rows * use.stride <= sg.adstack_report().slabs["real"]["current"]


def test_bounds_by_arguments_and_shapes_ask_the_device_for_nothing(device: Any) -> None:
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k(m: sg.i32) -> None:
        for i in x:
            v = x[i]
            for _ in range(m):
                v = sg.sin(v)
            y[i] = v

    for m in (3, 9, 3, 9):
        k(m)
        k.grad(m)
    assert counts(k)[:3].tolist() == [0, 0, 0] and device.pending


def test_a_line_tells_of_each_binding(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STACKGRAD_DEBUG_ADSTACK", "1")
    n = sg.field(sg.i32, SIZE)
    n.fill(STEPS)
    kernel = by_iteration(*arrays(), n)
    kernel()
    kernel.grad()
    kernel.grad()
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("stackgrad adstack")]
    assert len(lines) == 2 and "size counted" in lines[0] and "size cached" in lines[1]
    assert f"rows 64, stride {4 * STEPS} B, {64 * 4 * STEPS} B" in lines[0]
