"""This module emits launch conditions, which decide once per function call whether index checks are needed.

    if the extents and arguments leave it open whether indices are inside: run with comparisons
    else: run without

Loads of code without branches are in flight together, so such code is written in both forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler.analysis.index_checks import IndexChecks
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import walk
from . import ir
from .builder import IRBuilder
from .emit import ArithEmitter, ModuleState
from .index_forms import value_of
from .types import I1, I8, I64, const

BRIEF = 64
"""Most statements of a task that is written once more for launches that need no comparisons of indices."""


def needs_comparisons(e: Any) -> ir.LLVMValue:
    """Emit the condition that the launch needs index comparisons, because a launch condition does not hold.

    The builder of `e` stands at the head of its function.
    """
    b, found = e.b, const(I1, False)
    for forms in dict.fromkeys(c for conditions in e.checks.launches.values() for c in conditions):
        open_ = const(I1, True)
        for form in forms:
            open_ = b.and_(open_, b.icmp_signed("<", value_of(e, form), const(I64, 0)))
        found = b.or_(found, open_)
    return found


class EntryConditions(ArithEmitter):
    """Emit the launch conditions at the head of a function that has no task emitter, from extents and arguments."""

    def __init__(self, m: ModuleState, b: IRBuilder, block: ir.LLVMValue, checks: IndexChecks) -> None:
        """Store the builder of the function, the address of the argument block, and the index checks."""
        super().__init__(m, b)
        self.block, self.checks = block, checks

    def slot(self, at: int, t: ir.Type = I64) -> ir.LLVMValue:
        """Emit a load of a word of the argument block and return the word."""
        return self.b.load(self.b.gep(self.block, const(I64, at), I8, inbounds=True), t)

    def to_i64(self, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
        """Return an integer widened to 64 bits."""
        if t.bits == 64:
            return value
        return self.b.sext(value, I64) if t.is_signed else self.b.zext(value, I64)


def write_both_forms(b: Any, needed: ir.LLVMValue, write: Callable[[bool], object]) -> None:
    """Emit code twice, with and without the index comparisons that launch conditions decide; `needed` selects one.

    Args:
        b: Builder of any generator, positioned where the code goes.
        needed: Condition of `needs_comparisons`.
        write: write(False) writes the form with all comparisons, write(True) the other one.
    """
    b.if_else(needed, lambda: write(False), lambda: write(True))


def write_where_inside(e: Any, task: Task, write: Callable[[], None]) -> None:
    """Emit a task; if it is short and has no adstacks, emit it twice, with and without index checks.

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

    def form(inside: bool) -> None:
        e.checks = whole.where_inside() if inside else whole
        write()
        e.checks = whole

    write_both_forms(e.b, e.needs_comparisons, form)
