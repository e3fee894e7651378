"""This module emits branching code for statements on adstacks (entries of the table LOWER).

The depth of a stack is a register (stack memory that LLVM promotes), which all stacks that always have one depth share
(equal_depths.py). Between two of its changes the stacks of a group differ by numbers known at compile time, `pending`:
a push writes slot depth + pending, and when all are equal again they go into the register. A slot is a primal, or a
primal and then its adjoint. The address of slot k of a row is base + row·stride + offset + k·slot bytes where rows are
contiguous, and base + offset·rows + (k·rows + row)·slot bytes where they are interleaved. The first push of a group to
a depth compares it with the least capacity of the group, in every build, unless the loop around it has done so for all
its trips (loop_capacity.py, which also keeps addresses of slots in place of the depth in such loops). A read below an
empty stack gives 0 and touches slot 0, which is the row's own also where the stack has no slots (void_stacks.py);
nothing is written to it.
"""

from __future__ import annotations

from ....compiler.ir import nodes as n
from ...codegen import ir
from ...codegen.ops import apply
from ...codegen.types import I1, I64, const, memory_type
from ..emit import Emitter
from .stack_state import StackState, state_of
from .statements import LOWER, from_memory, to_memory


def _slot(e: Emitter, s: StackState, number: ir.LLVMValue, part: int) -> ir.LLVMValue:
    """Return the address of the primal (part 0) or of the adjoint (part 1) in a slot of an adstack."""
    place = e.b.mul(number, s.pitch)
    if part:
        place = e.b.add(place, const(I64, 1))
    return e.b.gep(s.base, place, memory_type(s.dtype))


def _top(e: Emitter, s: StackState) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the number of an adstack's top slot (0 if it is empty), and the condition that it is not empty."""
    depth = s.depth(e)
    if e.flow.filled.get(s.stack.alloca.stack):
        return e.b.sub(depth, const(I64, 1)), const(I1, True)
    filled = e.b.icmp_signed(">", depth, const(I64, 0))
    return e.b.select(filled, e.b.sub(depth, const(I64, 1)), const(I64, 0)), filled


@LOWER.row(n.StackAlloca)
def _alloca(e: Emitter, stmt: n.StackAlloca) -> None:
    state_of(e, stmt.stack).group.set(e, const(I64, 0))


@LOWER.row(n.StackPush)
def _push(e: Emitter, stmt: n.StackPush) -> None:
    s = state_of(e, stmt.stack)
    cursor = e.flow.cursors.get(stmt.stack)
    if cursor is not None:
        e.flow.store(to_memory(e, e.operand(stmt.value), s.dtype.is_bool), cursor.address(e))
        cursor.move(e, 1)
        return
    group, level = s.group, s.group.pending[stmt.stack]
    if level not in group.checked and stmt.stack not in e.flow.roomy:
        depth = s.depth(e)
        full = e.b.icmp_unsigned(">=", depth, group.capacity)
        site = e.m.site("overflow", e.task, stmt)
        e.flow.trap_if(full, site, e.b.add(depth, const(I64, 1)), group.capacity)
        group.known = e.b.block, group.known[1] if group.known else depth
        group.checked.add(level)
    depth = s.depth(e)
    value = to_memory(e, e.operand(stmt.value), s.dtype.is_bool)
    e.flow.store(value, _slot(e, s, depth, 0))
    if s.stack.alloca.adjoint:
        e.flow.store(e.const(value, 0), _slot(e, s, depth, 1))
    group.move(e, stmt.stack, 1)


@LOWER.row(n.StackPop)
def _pop(e: Emitter, stmt: n.StackPop) -> None:
    known = e.flow.filled.get(stmt.stack, 0)
    cursor = e.flow.cursors.get(stmt.stack)
    if cursor is not None:
        cursor.move(e, -1)
    else:
        state_of(e, stmt.stack).group.move(e, stmt.stack, -1, sure=known > 0)
    if known:
        e.flow.filled = e.flow.filled | {stmt.stack: known - 1}


def _read(e: Emitter, stmt: n.StackTop | n.StackTopAdjoint, part: int) -> None:
    """Set the result of a statement to the primal (part 0) or adjoint (part 1) on top of a stack."""
    s = state_of(e, stmt.stack)
    cursor = e.flow.cursors.get(stmt.stack)
    if cursor is not None:
        content = e.flow.tops.get(stmt.stack) or e.flow.load(memory_type(s.dtype), cursor.address(e))
        e.values[stmt.result] = from_memory(e, content, s.dtype.is_bool)
        return
    number, filled = _top(e, s)
    content = e.flow.load(memory_type(s.dtype), _slot(e, s, number, part))
    value = from_memory(e, content, s.dtype.is_bool)
    e.values[stmt.result] = e.b.select(filled, value, e.const(value, 0))


@LOWER.row(n.StackTop)
def _load_top(e: Emitter, stmt: n.StackTop) -> None:
    _read(e, stmt, 0)


@LOWER.row(n.StackTopAdjoint)
def _load_top_adjoint(e: Emitter, stmt: n.StackTopAdjoint) -> None:
    _read(e, stmt, 1)


@LOWER.row(n.StackAccumulate)
def _accumulate(e: Emitter, stmt: n.StackAccumulate) -> None:
    s = state_of(e, stmt.stack)
    value = e.operand(stmt.value)
    number, filled = _top(e, s)
    with e.b.if_then(filled):
        place = _slot(e, s, number, 1)
        old = e.flow.load(memory_type(s.dtype), place)
        e.flow.store(apply(e, "add", (s.dtype, s.dtype), old, value), place)
