"""This module emits the statements on blocks for GPUs: shared arrays, barriers, fences, shuffles and votes.

A block is a thread block and a subgroup a warp. The pass `thread_blocks_of_warps` has made sure that all threads of a
block come to each of these statements, and that a shuffle names a lane that is there.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.collectives import SUBGROUP
from ..codegen import ir
from ..codegen.types import I32, const, memory_type
from ..llvm import atomics
from ..llvm.branching.memory import element
from ..llvm.branching.statements import LOWER
from ..llvm.emit import Emitter, StackVariable
from . import warp


@LOWER.row(n.SharedArray)
def _shared_array(e: Emitter, stmt: n.SharedArray) -> None:
    name = f"sg.shared.{e.task}.{stmt.var}"
    place = e.m.module.shared(name, memory_type(stmt.dtype), stmt.size)
    e.locals[stmt.var] = StackVariable(place, stmt.dtype, stmt.size, is_shared=True)


@LOWER.row(n.UpdateElement)
def _update_element(e: Emitter, stmt: n.UpdateElement) -> None:
    """Emit an atomic update. An index outside changes nothing, and results in 0."""
    place, inside, array = element(e, stmt)
    value = e.operand(stmt.value)
    cell = e.alloca(value.type)
    e.b.store(e.const(value, 0), cell)
    with e.b.if_then(inside):
        e.b.store(atomics.update(e, stmt.op, array.dtype, place, value, atomic=True), cell)
    e.values[stmt.result] = e.b.load(cell, value.type)


@LOWER.row(n.Sync)
def _sync(e: Emitter, stmt: n.Sync) -> None:
    if stmt.kind == "block":
        warp.meet(e.m, e.b)
    elif stmt.kind == "subgroup":
        warp.sync_lanes(e.m, e.b, _present(e))
    else:
        warp.fence(e.m, e.b, of_grid=stmt.kind == "grid_fence")


@LOWER.row(n.Collective)
def _collective(e: Emitter, stmt: n.Collective) -> None:
    args = [e.operand(a) for a in stmt.args]
    if stmt.op == "ballot":
        e.values[stmt.result] = warp.ballot(e.m, e.b, args[0], _present(e))
        return
    assert stmt.op == "shuffle", stmt.op
    e.values[stmt.result] = warp.shuffle(e, _present(e), *args)


def _present(e: Emitter) -> ir.LLVMValue:
    """Return the mask of the lanes of this warp that are threads of the block."""
    size = e.m.kernel.tasks[e.task].block
    whole, rest = divmod(size, SUBGROUP)
    if not rest:
        return const(I32, -1)
    thread = warp.special_register(e.m, e.b, "tid.x")
    is_last = e.b.icmp_unsigned(">=", thread, const(I32, whole * SUBGROUP))
    return e.b.select(is_last, const(I32, (1 << rest) - 1), const(I32, -1))
