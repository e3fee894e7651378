"""This module contains mutants of shaders: wrong addresses of slots, iteration order, atomics and error reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....backends.codegen import ir
from ....backends.codegen.layout import BlockLayout
from ....backends.device import stacks
from ....backends.spirv import access, adstack, emit
from ....backends.spirv.body import FunctionWriter
from ....backends.spirv.code import I1, ArithmeticWriter
from ....backends.spirv.emit import ModuleState
from ...testing.judged_vulkan import ReorderedVulkan
from .planting import Mutant, Plant, patched

VULKAN = "vulkan"


def _slots_of_one_row() -> Plant:
    """Return a mutant that passes the row count 1 in the argument block, so that adstack slots overlap."""
    right = stacks.plan

    def wrong(layout: BlockLayout, *args: Any) -> stacks.StackPlan:
        out = right(layout, *args)
        rows = set(layout.rows.values())
        out.words = [(at, min(word, 1) if at in rows else word) for at, word in out.words]
        return out

    return patched(stacks, "plan", wrong)


def _barrier_left_out() -> Plant:
    return patched(ReorderedVulkan, "vkCmdPipelineBarrier", lambda *args: None)


def _plain_updates() -> Plant:
    return patched(ModuleState, "is_atomic", lambda *args: False)


def _empty_top_read() -> Plant:
    right = adstack._top

    def wrong(e: Any, s: Any) -> tuple[Any, Any]:
        place, _ = right(e, s)
        return place, e.b.const(I1, True)

    return patched(adstack, "_top", wrong)


def _reports_by_all() -> Plant:
    """Return a mutant in which all threads that fail write the error record, in place of the first one only."""
    right, exchange = emit.failer, access.compare_exchange

    def won(b: ArithmeticWriter, address: ir.LLVMValue, expected: ir.LLVMValue, *args: Any) -> Any:
        exchange(b, address, expected, *args)
        return expected

    def wrong(m: ModuleState) -> ArithmeticWriter:
        with patched(access, "compare_exchange", won):
            return right(m)

    return patched(emit, "failer", wrong)


def _all_elected() -> Plant:
    right = FunctionWriter.result_of

    def wrong(self: Any, t: ir.Type, name: str, *operands: int) -> Any:
        made = right(self, t, name, *operands)
        return self.const(I1, True) if name == "GroupNonUniformElect" else made

    return patched(FunctionWriter, "result_of", wrong)


def _mutant(name: str, description: str, rule: str, plant: Callable[[], Plant], shows: str = "values") -> Mutant:
    return Mutant(name, description, rule, plant, shows, VULKAN)


MUTANTS: Sequence[Mutant] = (
    _mutant(
        "shader-slots-overlap",
        "Slots of an adstack are as far apart as if the slab had one row.",
        "slot k of a row lies k times all rows of the slab behind its first",
        _slots_of_one_row,
        "gradient",
    ),
    _mutant(
        "shader-barrier-missing",
        "No barrier stands between the dispatches of a launch.",
        "a task sees what the tasks before it wrote",
        _barrier_left_out,
    ),
    _mutant(
        "shader-updates-plain",
        "Threads update one element by a load and a store.",
        "updates that threads may make of one element at once are atomic",
        _plain_updates,
    ),
    _mutant(
        "shader-all-elected",
        "Every thread of a subgroup makes the update that one must make for all.",
        "what a subgroup adds up is added to the element once",
        _all_elected,
    ),
    _mutant(
        "shader-empty-top",
        "A read of an empty adstack gives what its first slot held.",
        "a read below the bottom of an adstack gives 0",
        _empty_top_read,
        "stacks",
    ),
    _mutant(
        "shader-report-unclaimed",
        "Every thread that fails writes its numbers into the error record.",
        "an error record is written by the one thread that was first",
        _reports_by_all,
        "stacks",
    ),
)
