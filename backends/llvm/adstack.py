"""Rows of LOWER on adstacks.

The depth of a stack is a register (stack memory that LLVM promotes). A slot is a primal, or a primal and then its
adjoint. The address of slot k of a row is base + row·stride + offset + k·slot bytes where rows are contiguous, and
base + offset·rows + (k·rows + row)·slot bytes where they are interleaved. A push compares the depth with the
capacity in every build; reads below an empty or void stack give 0 and touch slot 0, which always exists: the
launcher gives a stack of capacity 0 the offset 0 and a base that holds at least one slot.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir import nodes as n
from ...compiler.ir.types import Scalar
from . import ir
from .emit import Emitter
from .layout import Stack
from .ops import apply
from .statements import LOWER, from_memory, to_memory
from .types import I8, I64, const, memory_type


@dataclass(frozen=True)
class StackState:
    """A stack of the function: its depth register, base address of its row, capacity, distance between slots."""

    stack: Stack
    depth: ir.Value
    base: ir.Value
    capacity: ir.Value
    pitch: ir.Value

    @property
    def dtype(self) -> Scalar:
        return self.stack.alloca.dtype

    @property
    def width(self) -> int:
        return 2 if self.stack.alloca.adjoint else 1


def _state(e: Emitter, name: str) -> StackState:
    if name not in e.stacks:
        stack = next(s for s in e.m.layout.stacks if s.task == e.task and s.alloca.stack == name)
        base, pitch = _place(e, stack)
        e.stacks[name] = StackState(stack, e.alloca(I64), base, e.slot(stack.capacity_at), pitch)
    return e.stacks[name]


def _place(e: Emitter, stack: Stack) -> tuple[ir.Value, ir.Value]:
    """(base of the row, distance of its slots in elements), computed at the head of the function."""
    layout, b = e.m.layout, e.entry
    key = stack.task, stack.slab
    width = 2 if stack.alloca.adjoint else 1
    start, offset = e.slot_address(layout.slabs[stack.slab]), e.slot(stack.offset_at)
    if e.m.target.interleaved:
        rows = e.slot(layout.rows[key])
        within = b.mul(e.row, const(I64, stack.slot_bytes))
        bytes_before = b.add(b.mul(offset, rows), within)
        pitch: ir.Value = b.mul(rows, const(I64, width))
    else:
        bytes_before = b.add(b.mul(e.row, e.slot(layout.strides[key])), offset)
        pitch = const(I64, width)
    return b.gep(start, bytes_before, I8), pitch


def _slot(e: Emitter, s: StackState, number: ir.Value, part: int) -> ir.Value:
    """Address of the primal (part 0) or adjoint (part 1) of a slot."""
    place = e.b.mul(number, s.pitch)
    if part:
        place = e.b.add(place, const(I64, 1))
    return e.b.gep(s.base, place, memory_type(s.dtype))


def _top(e: Emitter, s: StackState) -> tuple[ir.Value, ir.Value]:
    """(number of the top slot, condition 'the stack is not empty'); number 0 if it is."""
    depth = e.flow.load(I64, s.depth)
    filled = e.b.icmp_unsigned("!=", depth, const(I64, 0))
    return e.b.select(filled, e.b.sub(depth, const(I64, 1)), const(I64, 0)), filled


@LOWER.row(n.StackAlloca)
def _alloca(e: Emitter, stmt: n.StackAlloca) -> None:
    e.flow.store(const(I64, 0), _state(e, stmt.stack).depth)


@LOWER.row(n.StackPush)
def _push(e: Emitter, stmt: n.StackPush) -> None:
    s = _state(e, stmt.stack)
    depth = e.flow.load(I64, s.depth)
    full = e.b.icmp_unsigned(">=", depth, s.capacity)
    deeper = e.b.add(depth, const(I64, 1))
    e.flow.trap_if(full, e.m.site("overflow", e.task, stmt), deeper, s.capacity)
    value = to_memory(e, e.operand(stmt.value), s.dtype.is_bool)
    e.flow.store(value, _slot(e, s, depth, 0))
    if s.stack.alloca.adjoint:
        e.flow.store(e.const(value, 0), _slot(e, s, depth, 1))
    e.flow.store(deeper, s.depth)


@LOWER.row(n.StackPop)
def _pop(e: Emitter, stmt: n.StackPop) -> None:
    s = _state(e, stmt.stack)
    e.flow.store(_top(e, s)[0], s.depth)


def _read(e: Emitter, stmt: n.StackTop | n.StackTopAdjoint, part: int) -> None:
    s = _state(e, stmt.stack)
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
    s = _state(e, stmt.stack)
    number, filled = _top(e, s)
    place = _slot(e, s, number, 1)
    old = e.flow.load(memory_type(s.dtype), place)
    new = apply(e, "add", (s.dtype, s.dtype), old, e.operand(stmt.value))
    e.flow.store(e.b.select(filled, new, old), place)
