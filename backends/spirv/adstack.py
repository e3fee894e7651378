"""Rows of LOWER on adstacks.

Stacks that always have one depth (lockstep.py) share one depth variable only where a block leaves them equal; here
each stack has its own, which costs a register and keeps every row simple. Slot k of a row lies at base + offset·rows +
(k·rows + row)·slot bytes: neighbouring threads touch neighbouring addresses. Addresses have 64 bits, so no heap is too
large for them. A push at capacity is an overflow in every build; reads below an empty or void stack give 0 and touch
slot 0, which always exists.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir import nodes as n
from ...compiler.ir.types import Scalar
from ..llvm import ir
from ..llvm.layout import Stack
from ..llvm.types import memory_type
from . import access
from .code import I64
from .emit import Emitter
from .ops import apply
from .statements import LOWER, from_memory, to_memory
from .variables import Variable


@dataclass(frozen=True)
class StackState:
    """A stack of the shader: its depth, and the base of its row, distance of its slots and capacity."""

    stack: Stack
    depth: Variable
    base: ir.Value
    pitch: ir.Value
    capacity: ir.Value

    @property
    def dtype(self) -> Scalar:
        return self.stack.alloca.dtype


def state_of(e: Emitter, name: str) -> StackState:
    """The stack of this name in the shader being written."""
    found = e.stacks.get(name)
    if found is None:
        stack = next(s for s in e.m.layout.stacks if s.task == e.task and s.alloca.stack == name)
        found = e.stacks[name] = _state(e, stack)
    assert isinstance(found, StackState)
    return found


def _state(e: Emitter, stack: Stack) -> StackState:
    layout, b = e.m.layout, e.b
    start, offset = e.address_of_slab(stack.slab), e.slot(stack.offset_at)
    rows, capacity = e.slot(layout.rows[stack.task, stack.slab]), e.slot(stack.capacity_at)
    with b.at_head():
        size = e.word(stack.slot_bytes)
        base = b.add(b.add(start, b.mul(offset, rows)), b.mul(e.row, size))
        return StackState(stack, b.scalar(I64), base, b.mul(rows, size), capacity)


def _slot(e: Emitter, s: StackState, number: ir.Value, part: int) -> ir.Value:
    """Address of the primal (part 0) or adjoint (part 1) of a slot."""
    place = e.b.add(s.base, e.b.mul(number, s.pitch))
    return e.b.add(place, e.word(part * s.dtype.size))


def _top(e: Emitter, s: StackState) -> tuple[ir.Value, ir.Value]:
    """(number of the top slot, condition 'the stack is not empty'); number 0 if it is."""
    depth = s.depth.get()
    filled = e.b.icmp_signed(">", depth, e.word(0))
    return e.b.select(filled, e.b.sub(depth, e.word(1)), e.word(0)), filled


@LOWER.row(n.StackAlloca)
def _alloca(e: Emitter, stmt: n.StackAlloca) -> None:
    state_of(e, stmt.stack).depth.set(e.word(0))


@LOWER.row(n.StackPush)
def _push(e: Emitter, stmt: n.StackPush) -> None:
    s = state_of(e, stmt.stack)
    depth = s.depth.get()
    after = e.b.add(depth, e.word(1))
    full = e.b.icmp_unsigned(">=", depth, s.capacity)
    e.trap_if(full, e.m.site("overflow", e.task, stmt), after, s.capacity)
    value = to_memory(e, e.operand(stmt.value), s.dtype.is_bool)
    access.store(e.b, value, _slot(e, s, depth, 0))
    if s.stack.alloca.adjoint:
        access.store(e.b, e.const(value, 0), _slot(e, s, depth, 1))
    s.depth.set(after)


@LOWER.row(n.StackPop)
def _pop(e: Emitter, stmt: n.StackPop) -> None:
    s = state_of(e, stmt.stack)
    number, _ = _top(e, s)
    s.depth.set(number)


def _read(e: Emitter, stmt: n.StackTop | n.StackTopAdjoint, part: int) -> None:
    s = state_of(e, stmt.stack)
    number, filled = _top(e, s)
    content = access.load(e.b, _slot(e, s, number, part), memory_type(s.dtype))
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
    number, filled = _top(e, s)
    place = _slot(e, s, number, 1)
    old = access.load(e.b, place, memory_type(s.dtype))
    new = apply(e, "add", (s.dtype, s.dtype), old, e.operand(stmt.value))
    access.store(e.b, e.b.select(filled, new, old), place)
