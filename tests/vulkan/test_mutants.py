"""Known mistakes of shader generators, planted: each makes kernels of these tests wrong, so none could hide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from recorded_support import verdicts
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.layout import StackLayout
from stackgrad.backends.spirv import adstack, stack_state
from stackgrad.backends.spirv.emit import Emitter, ModuleState
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import run_bounded

SUM = """kernel sum(x: f64[1], y: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] %4: i32 = const 3 %5: i32 = mod %2, %4 %6: f64 = atomic add y[%5], %3 } }"""

HISTORY = """kernel history(x: f64[1], y: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca a: f64 capacity 3 adjoint
    adstack_alloca b: f64 capacity 2
    %3: f64 = load x[%2] %4: f64 = add %3, %3
    adstack_push a, %3 adstack_push b, %4 adstack_push a, %4 adstack_push b, %3 adstack_acc_adj a, %3
    %5: f64 = adstack_load_top a %6: f64 = adstack_load_top_adj a adstack_pop a %7: f64 = adstack_load_top a
    %8: f64 = adstack_load_top b adstack_pop b %9: f64 = adstack_load_top b
    %10: f64 = sub %5, %6 %11: f64 = mul %10, %7 %12: f64 = mul %8, %9 %13: f64 = sub %11, %12
    %14: f64 = add %13, %5 store y[%2], %14 } }"""


def is_right(vulkan: VulkanBackend, text: str) -> bool:
    """Whether the device and the reference agree."""
    kernel = parse_kernel(text)
    arrays = {"x": np.arange(1.0, 701.0), "y": np.zeros(700)}
    known = run_bounded(kernel, arrays, {}, precise=False)
    vulkan.compile(kernel, Options()).run(arrays, {}, Sizes(), Draws())
    return verdicts(known, arrays)["y"].state == "agree"


Plant = Callable[[pytest.MonkeyPatch], None]


def plain_sums(patch: pytest.MonkeyPatch) -> None:
    """Updates that are not atomic."""
    patch.setattr(ModuleState, "is_atomic", lambda self, task, array: False)


def adjoint_over_primal(patch: pytest.MonkeyPatch) -> None:
    """Both parts of a slot at one address."""
    slot = adstack._slot
    patch.setattr(adstack, "_slot", lambda e, s, number, part: slot(e, s, number, 0))


def one_row_for_all(patch: pytest.MonkeyPatch) -> None:
    """Rows of all threads at one address."""
    enter = stack_state._enter

    def shared(e: Emitter, stacks: list[StackLayout]) -> None:
        row, e.row = e.row, e.word(0)
        enter(e, stacks)
        e.row = row

    patch.setattr(stack_state, "_enter", shared)


def slots_of_one_row(patch: pytest.MonkeyPatch) -> None:
    """The distance of slots without the number of rows."""
    enter = stack_state._enter

    def close(e: Emitter, stacks: list[StackLayout]) -> None:
        enter(e, stacks)
        for stack in stacks:
            stack_state.state_of(e, stack.alloca.stack).group.pitch = e.word(stack.slot_bytes)

    patch.setattr(stack_state, "_enter", close)


@pytest.mark.parametrize(
    ("text", "plant"),
    [(SUM, plain_sums), (HISTORY, adjoint_over_primal), (HISTORY, one_row_for_all), (HISTORY, slots_of_one_row)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_found(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, text: str, plant: Plant) -> None:
    assert is_right(vulkan, text)
    plant(monkeypatch)
    assert not is_right(vulkan, text)
