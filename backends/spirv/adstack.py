"""This module emits SPIR-V for the statements on adstacks (entries of table LOWER).

Slot k of a row lies at base + offset·rows + (k·rows + row)·slot bytes, so neighboring threads touch neighboring
addresses. Addresses have 64 bits, so no heap is too large for them. A push at capacity is an overflow in every build;
where the trips of a loop push alike, one comparison before the loop checks all of them (loop_capacity.py). A read of an
empty stack gives 0 and touches slot 0. That slot belongs to the row even where the stack has no slots
(codegen/void_stacks.py); nothing is written to it.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ..codegen import ir
from ..codegen.types import memory_type
from . import access
from .code import I1
from .emit import Emitter
from .ops import apply
from .stack_state import StackState, state_of
from .statements import LOWER, from_memory, to_memory


def _slot(e: Emitter, s: StackState, place: ir.LLVMValue, part: int) -> ir.LLVMValue:
    """Return the address of the primal (part 0) or the adjoint (part 1) of the slot at the cursor `place`."""
    return s.slot(e, place, part)


def _top(e: Emitter, s: StackState) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the cursor of an adstack's top slot (of slot 0 if it is empty), and the condition that it is not empty."""
    b, place, group = e.b, s.place(e), s.group
    below = b.sub(place, group.pitch)
    if e.filled.get(s.stack.alloca.stack):
        return below, b.const(I1, True)
    filled = b.icmp_signed(">", place, group.base)
    return b.select(filled, below, group.base), filled


@LOWER.row(n.StackAlloca)
def _alloca(e: Emitter, stmt: n.StackAlloca) -> None:
    """Set the depth of a stack to 0 where its declaration executes."""
    group = state_of(e, stmt.stack).group
    group.set(group.base)


@LOWER.row(n.StackPush)
def _push(e: Emitter, stmt: n.StackPush) -> None:
    """Emit a push: store the value to the next slot, set its adjoint to zero, and advance the stack by one slot."""
    s = state_of(e, stmt.stack)
    group, level = s.group, s.group.pending[stmt.stack]
    place = s.place(e)
    # The stacks of a group move together, so one check of a level serves all of them.
    if level not in group.checked and stmt.stack not in e.roomy:
        _check(e, s, stmt, place)
        group.checked.add(level)
    value = to_memory(e, e.operand(stmt.value), s.dtype.is_bool)
    access.store(e.b, value, _slot(e, s, place, 0))
    if s.stack.alloca.adjoint:
        access.store(e.b, e.const(value, 0), _slot(e, s, place, 1))
    group.move(e, stmt.stack, 1)


def _check(e: Emitter, s: StackState, stmt: n.StackPush, place: ir.LLVMValue) -> None:
    """Emit an overflow trap for the case that the fullest adstack of the group has no free slot."""
    full = e.b.icmp_unsigned(">=", place, s.group.limit)
    e.trap_with(
        full,
        e.m.site("overflow", e.task, stmt),
        lambda: (e.b.add(s.group.depth(e, place), e.word(1)), s.group.capacity),
    )


@LOWER.row(n.StackPop)
def _pop(e: Emitter, stmt: n.StackPop) -> None:
    """Emit a pop, which removes the top value of a stack."""
    known = e.filled.get(stmt.stack, 0)
    state_of(e, stmt.stack).group.move(e, stmt.stack, -1, sure=known > 0)
    if known:
        e.filled = e.filled | {stmt.stack: known - 1}


def _read(e: Emitter, stmt: n.StackTop | n.StackTopAdjoint, part: int) -> None:
    """Define the result of a statement that reads the primal (part 0) or the adjoint (part 1) of the top slot."""
    s = state_of(e, stmt.stack)
    # A group of trips that was read ahead (pop_groups.py) has the contents of its tops in registers.
    ahead = e.tops.get(stmt.stack) if part == 0 else None
    if ahead is not None:
        e.values[stmt.result] = from_memory(e, ahead, s.dtype.is_bool)
        return
    place, filled = _top(e, s)
    content = access.load(e.b, _slot(e, s, place, part), memory_type(s.dtype))
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
    """Emit an addition to the adjoint of the top slot. Nothing is added if the stack is empty."""
    s = state_of(e, stmt.stack)
    value = e.operand(stmt.value)
    place, filled = _top(e, s)
    with e.b.if_then(filled):
        at = _slot(e, s, place, 1)
        old = access.load(e.b, at, memory_type(s.dtype))
        access.store(e.b, apply(e, "add", (s.dtype, s.dtype), old, value), at)
