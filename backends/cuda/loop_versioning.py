"""This module emits a task in two versions: with all index checks, and without those that launch conditions decide.

    if the extents and arguments leave it open whether indices are inside: run with comparisons
    else: run without

Loads of a loop without branches are in flight together; which form runs is known where an entry point begins.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.analysis.index_checks import IndexChecks
from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.launch_conditions import needs_comparisons
from ..codegen.types import I8, I64, const


class EntryConditions(ArithEmitter):
    """Emit conditions on extents and arguments at the start of a GPU entry point."""

    def __init__(self, m: ModuleState, b: IRBuilder, block: ir.LLVMValue, checks: IndexChecks) -> None:
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


def with_and_without(
    m: ModuleState, b: IRBuilder, block: ir.LLVMValue, checks: IndexChecks, run: Callable[[bool], object]
) -> None:
    """Emit a branch to one of two versions of a task: with all index checks, or without those decided at launch.

    Args:
        m: Module being written.
        b: Builder of the entry point.
        block: Address of the argument block.
        checks: Index checks of the task.
        run: run(False) emits the form with all comparisons, run(True) the form without what the launch decides.
    """
    some, none, done = (b.function.append_basic_block(part) for part in ("compared", "inside", "run"))
    b.cbranch(needs_comparisons(EntryConditions(m, b, block, checks)), some, none)
    for start, inside in ((some, False), (none, True)):
        b.position_at_end(start)
        run(inside)
        b.branch(done)
    b.position_at_end(done)
