"""What the sizes of a launch say about a stack, and how a launch is refused whose stacks cannot have their memory."""

from __future__ import annotations

from ...compiler.ir.nodes import Kernel
from ..base import Sizes
from .layout import Stack


def capacity(stack: Stack, sizes: Sizes) -> int:
    """Slots of a stack: what the sizes say, else the literal of its declaration, else none.

    A stack of which nothing is known is one that no push was counted on: a push overflows and is reported.
    """
    if sizes.rows.get((stack.task, stack.slab)) == 0:
        return 0
    return max(sizes.capacities.get(stack.alloca.stack, stack.alloca.capacity or 0), 0)


def total(stack: Stack, slots: int, sizes: Sizes) -> int | None:
    """Values pushed over all iterations; at most slots times iterations where they were not added up."""
    known = sizes.totals.get(stack.alloca.stack)
    if known is not None:
        return known
    passing = sizes.rows.get((stack.task, stack.slab))
    return None if passing is None else passing * slots


def refusal(kernel: Kernel, stack: Stack, slots: int, size: int, reason: str) -> str:
    """Which stack wants most, where it is, and what can be done. slots, size: of that stack, in bytes over all rows."""
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
