"""Tasks behind gates: over the list of what passes where that is little, else over all; rows for what passes alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import gradient, memory_of, near
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan import executable
from stackgrad.backends.vulkan import host_code as h
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.block import VulkanBlock
from stackgrad.backends.vulkan.executable import VulkanExecutable
from stackgrad.backends.vulkan.recorded_commands import RecordedCommands
from stackgrad.compiler.driver import prepare_reverse

sys.path.append(str(Path(__file__).parent.parent / "runtime"))
from gate_kernels import GATES, Data, check_gradient, nothing_else, slopes  # noqa: E402

STEPS = 8


@pytest.fixture
def groups(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, int]]]:
    """Groups of each entry of the last launch from Python that had a task with a list."""
    seen: list[tuple[VulkanExecutable, int]] = []
    start = VulkanExecutable._start

    def noted(self: VulkanExecutable, block: VulkanBlock) -> None:
        slot = self._ring.words[h.R_NEXT]
        start(self, block)
        if self.layout.list_at:
            seen.append((self, slot))

    monkeypatch.setattr(executable.VulkanExecutable, "_start", noted)
    sg.init(arch=sg.vulkan, default_fp=sg.f32)

    def read() -> dict[str, int]:
        made, slot = seen[-1]
        ring = made._ring
        at = ring.words[h.RING + h.SLOT * slot + h.S_HOST] - ring.piece.address
        view = ring.piece.view[at + ring.counts_at :]
        return {
            name: int.from_bytes(bytes(view[h.GROUPS * k : h.GROUPS * k + 4]), "little")
            for k, (name, _) in enumerate(made._entries)
        }

    yield read
    sg.reset()


def gated(chosen: np.ndarray, trips: np.ndarray) -> tuple[sg.Kernel, sg.Field, sg.Field, sg.Field]:
    """A kernel that does nothing but behind its gate; the gate, input and output."""
    gate, n = (sg.field(sg.i32, len(chosen)) for _ in range(2))
    gate.from_numpy(chosen.astype(np.int32))
    n.from_numpy(trips.astype(np.int32))
    x, y = (sg.field(sg.f32, gate.shape, needs_grad=True) for _ in range(2))
    x.from_numpy(np.linspace(0.1, 1.4, gate.shape[0], dtype=np.float32))

    return nothing_else(x, y, gate, n), gate, x, y


def check(k: sg.Kernel, x: sg.Field, y: sg.Field, chosen: np.ndarray, trips: np.ndarray) -> None:
    """Run both ways; the gradient is that of a closed form."""
    k()
    x.grad.fill(0)
    y.grad.fill(1)
    before = memory_of(x=x, y=y) | {"gate": chosen.astype(np.int32), "trips": trips.astype(np.int32)}
    k.grad()
    expected = np.where(chosen, slopes(x.to_numpy(), trips, chosen), 0)
    near(gradient(k.ir(), before), "x.grad", x.grad.to_numpy(), expected)


def some(count: int, of: int, seed: int = 2) -> np.ndarray:
    chosen = np.zeros(of, bool)
    chosen[np.random.default_rng(seed).permutation(of)[:count]] = True
    return chosen


@pytest.mark.parametrize("passing", [0, 1, 150, 1000, 1001, 2000])
def test_few_are_listed_and_many_run_in_place(groups: Callable[[], dict[str, int]], passing: int) -> None:
    chosen, trips = some(passing, 2000), np.full(2000, STEPS)
    k, _, x, y = gated(chosen, trips)
    check(k, x, y, chosen, trips)
    few = passing <= 1000
    found = groups()
    assert found["select_0"] == (32 if few else 0)
    assert not 0 < passing <= 1000 or found["task_0"] == -(-passing // 64)
    (use,) = sg.adstack_report().tasks
    assert use.passing == passing and use.rows == (64 * found["task_0"] if passing else 0)


def test_more_that_pass_than_have_room_run_over_all_iterations(groups: Callable[[], dict[str, int]]) -> None:
    """Those that pass and push nothing are not counted."""
    chosen, trips = np.ones(3000, bool), np.zeros(3000, int)
    trips[::100] = STEPS
    k, _, x, y = gated(chosen, trips)
    check(k, x, y, chosen, trips)
    assert groups()["select_0"] > 0 and sg.adstack_report().tasks[0].passing == 30


def test_what_passes_is_found_at_each_launch(groups: Callable[[], dict[str, int]]) -> None:
    """A gate that is opened changes the list, also in launches that stand ready."""
    trips = np.full(200, STEPS)
    k, gate, x, y = gated(np.zeros(200, bool), trips)
    for size in (3, 3, 7, 60, 2):
        chosen = some(size, 200, size)
        gate.from_numpy(chosen.astype(np.int32))
        for _ in range(3):
            check(k, x, y, chosen, trips)


@pytest.mark.parametrize("without", ["subgroups", "lists"])
def test_without_features(
    vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, without: str, groups: Callable[[], dict[str, int]]
) -> None:
    """Places claimed one by one; no lists."""
    fewer = replace(vulkan.features, **{without: False})
    monkeypatch.setattr(VulkanBackend, "features", fewer)
    chosen, trips = some(100, 1500), np.full(1500, STEPS)
    k, _, x, y = gated(chosen, trips)
    check(k, x, y, chosen, trips)
    if without == "subgroups":
        assert groups()["select_0"] == 24


# ---- without buffer addresses -----------------------------------------------------------------------------------


@pytest.fixture(params=[(), ("int64", "subgroups")], ids=["words", "pairs"])
def bound(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    """`sg.vulkan` is the device without addresses."""
    made = VulkanBackend(("buffer_addresses", *request.param))
    registry.put("vulkan", made)
    sg.init(arch=sg.vulkan, default_fp=sg.f32)
    yield made
    sg.reset()
    registry.put("vulkan", vulkan)


@pytest.fixture
def dispatched(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, int]]:
    """Groups of each entry of the last launch that had a task with a list, all parts together."""
    seen: list[dict[str, int]] = []
    send = RecordedCommands.run

    def noted(self: RecordedCommands, sets: Any, steps: Any) -> None:
        send(self, sets, steps)
        if any(name.startswith("select") for name in self.pipelines):
            seen.append({step[0].entry: sum(part.groups for part in step) for step in steps if step})

    monkeypatch.setattr(RecordedCommands, "run", noted)
    return lambda: seen[-1]


@pytest.mark.rotating
@pytest.mark.parametrize("passing", [0, 150, 1000, 1001])
def test_lists_are_bound(dispatched: Callable[[], dict[str, int]], passing: int) -> None:
    """As on other devices: rows and threads for what passes alone."""
    chosen, trips = some(passing, 2000), np.full(2000, STEPS)
    k, _, x, y = gated(chosen, trips)
    check(k, x, y, chosen, trips)
    found, few = dispatched(), passing <= 1000
    assert found.get("select_0") == (32 if few else None)
    assert not 0 < passing <= 1000 or found["task_0"] == -(-passing // 64)
    (use,) = sg.adstack_report().tasks
    assert use.rows == (64 * found["task_0"] if passing else 0)


def test_a_list_and_stacks_in_parts(
    bound: VulkanBackend, dispatched: Callable[[], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part takes its places of the one list; no slot lies beyond what a shader reaches."""
    monkeypatch.setattr(bound.device, "card", replace(bound.device.card, reach=1 << 14))
    steps = 20
    chosen, trips = some(700, 3000), np.full(3000, steps)
    k, _, x, y = gated(chosen, trips)
    check(k, x, y, chosen, trips)
    assert dispatched()["task_0"] == 11 and bound.heap_report()["real"]["current"] >= 700 * 4 * steps > 1 << 14


@pytest.mark.expensive
def test_lists_of_many_launches(bound: VulkanBackend) -> None:
    """Each begins with an empty list: no iteration runs twice. One that has too little room is given up."""
    trips = np.full(1000, STEPS)
    trips[100:] = 0
    _, gate, x, _ = gated(np.ones(1000, bool), trips)
    n, total = sg.field(sg.i32, 1000), sg.field(sg.f32, (), needs_grad=True)
    n.from_numpy(trips.astype(np.int32))

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] > 0:
                v = x[i]
                for _ in range(n[i]):
                    v = 1.25 * sg.sin(v)
                total[None] += v

    total.grad[None] = 1.0
    for size in (3, 3, 40, 40, 1000, 0, 1000, 5):
        chosen = some(size, 1000, size)
        gate.from_numpy(chosen.astype(np.int32))
        x.grad.fill(0)
        before = memory_of(x=x, gate=gate, n=n, total=total)
        k.grad()
        expected = np.where(chosen, slopes(x.to_numpy(), trips, chosen), 0)
        near(gradient(k.ir(), before), "x.grad", x.grad.to_numpy(), expected)


@pytest.mark.expensive
def test_a_device_with_few_storage_buffers_makes_no_list(bound: VulkanBackend) -> None:
    """It has one for each slab, and one for all arrays, before one for lists."""
    k, *_ = gated(np.ones(9, bool), np.ones(9, int))
    kernel = prepare_reverse(k.ir()).kernel

    def bindings(most: int) -> Any:
        features = replace(bound.features, storage_buffers=most, lists=True)
        return generate(kernel, Options(), features).bindings

    need = 3 + len(bindings(16).slabs)
    assert bindings(16).lists is not None and bindings(need).lists is not None
    assert bindings(need - 1).lists is None and bindings(need - 1).count == need - 1


# ---- forms of gates -----------------------------------------------------------------------------------------------


@pytest.mark.rotating
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_gradients_of_every_form_of_gate(vulkan: VulkanBackend, gate: Callable[[Data], Any]) -> None:
    sg.init(arch=sg.vulkan, default_fp=sg.f64)
    data = Data(sg.f64)
    kernel = gate(data)
    for count, every in ((1, 1), (1000, 20), (3, 2)):
        trips = 1 + np.arange(count, dtype=np.int32) % 7
        chosen = np.arange(count) % every == 0
        data.fill(chosen, trips)
        check_gradient(kernel, data, chosen, trips)
    sg.reset()
