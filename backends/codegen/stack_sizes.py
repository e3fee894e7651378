"""This module computes the capacity of an adstack in a launch, and the error message if memory is short."""

from __future__ import annotations

from ...compiler.ir.kernels import Kernel
from ..base import Sizes
from .layout import StackLayout


def stack_capacity(stack: StackLayout, sizes: Sizes) -> int:
    """Return the number of slots of an adstack in each row: as counted, else as declared, else 0.

    If nothing is known of a stack, no push was counted on it: a push overflows and is reported.
    """
    if sizes.rows.get((stack.task, stack.slab)) == 0:
        return 0
    return max(sizes.capacities.get(stack.alloca.stack, stack.alloca.capacity or 0), 0)


def total_pushes(stack: StackLayout, slots: int, sizes: Sizes) -> int | None:
    """Return the number of values that all iterations together push onto a stack, or None if it is unknown.

    If the pushes were not added up, it is at most slots times iterations.
    """
    known = sizes.totals.get(stack.alloca.stack)
    if known is not None:
        return known
    passing = sizes.rows.get((stack.task, stack.slab))
    return None if passing is None else passing * slots


def memory_refusal(kernel: Kernel, stack: StackLayout, slots: int, size: int, reason: str) -> str:
    """Return an error message that names the adstack that needs most memory, its source line and a cure.

    Args:
        kernel: Kernel that is refused.
        stack: Stack that needs most memory.
        slots: Number of slots of the stack in each row.
        size: Bytes of the stack over all rows.
        reason: Cause of the refusal.
    """
    span = kernel.span(stack.alloca.loc)
    name = stack.alloca.variable or stack.alloca.stack
    lines = [
        f"kernel {kernel.name}, task {stack.task}: {reason}; nothing was run",
        f"most of it, {size} bytes, for the history of {name}: {slots} slots of {stack.slot_bytes} bytes for each "
        "iteration in flight",
        *(span.render().splitlines() if span else ()),
        "cure: run fewer steps of the loop per launch, or keep its state in a field and launch once a step",
    ]
    return "\n    ".join(lines)
