"""This module emits launch conditions, which decide once per function call whether index checks are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.walk import walk
from . import ir
from .index_forms import value_of
from .types import I1, I64, const

BRIEF = 64
"""Most statements of a task that is written once more for launches that need no comparisons of indices."""


def needs_comparisons(e: Any) -> ir.LLVMValue:
    """Emit the condition, evaluated in each launch, that some index check could not be proved unnecessary.

    The builder of `e` stands at the head of its function.
    """
    b, found = e.b, const(I1, False)
    for forms in dict.fromkeys(c for conditions in e.checks.launches.values() for c in conditions):
        open_ = const(I1, True)
        for form in forms:
            open_ = b.and_(open_, b.icmp_signed("<", value_of(e, form), const(I64, 0)))
        found = b.or_(found, open_)
    return found


def write_where_inside(e: Any, task: n.Task, write: Callable[[], None]) -> None:
    """Emit the code of a task, or for a short task without adstacks two versions, with and without index checks.

    The second version has no comparisons that a launch condition makes unnecessary, and runs if this condition holds.

    The condition is the same for all iterations, but a branch on it in every iteration costs as much as it saves, and
    keeps their accesses apart.

    Args:
        e: Emitter of any generator.
        task: Task to write.
        write: Writes the task under `e.checks`.
    """
    whole, statements = e.checks, list(walk(task.body))
    if not whole.launches or len(statements) > BRIEF or any(isinstance(s, n.StackAlloca) for s in statements):
        write()
        return

    def inside() -> None:
        e.checks = whole.where_inside()
        write()
        e.checks = whole

    e.b.if_else(e.needs_comparisons, write, inside)
