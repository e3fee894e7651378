"""This module emits masked code for statements on adstacks (entries of the table MASKED).

A row holds the stacks of all lanes of a block, slot-major: slot k of a stack is `lanes` primals and then, if it has
them, `lanes` adjoints, at base + row * (lanes * stride) + lanes * offset + k * lanes * slot bytes. Reads of an empty
stack come from a row of zeros in the function's own memory, to which nothing but zeros is ever added.

A stack whose depth is the same in all lanes (not ragged) has a scalar depth, and its values are read and written as
vectors, or as the scalar of lane 0 if it is uniform. A ragged stack has a depth for each lane, and beside it the depth
that the lanes of the last access had: if all active lanes have that depth, as in loops that run for as long as a lane
needs, their slots are one run of memory, and they are gathered and scattered otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....compiler.ir import nodes as n
from ....compiler.ir.types import Scalar
from ...codegen import ir
from ...codegen.layout import StackLayout
from ...codegen.ops import apply
from ...codegen.stack_changes import pushes_of_a_trip
from ...codegen.types import I8, I32, I64, const, memory_type
from ..branching.loop_capacity import check_room
from ..branching.statements import from_memory, to_memory
from .access import LanePlace, read, write
from .lanes import LaneEmitter
from .statements import MASKED

_DEEPEST = (1 << 31) - 1


@dataclass(frozen=True)
class LaneStack:
    """Represent an adstack in a function of masked code, for all lanes of the block.

    Attributes:
        stack: Place of the stack in the argument block.
        ragged: The depth may differ by lane.
        single: The stack holds uniform values, in lane 0 alone.
        base: Address of the first slot in the function's row.
        capacity: Number of slots.
        depth: Register with the depth, i64, or i32 for each lane if ragged.
        hint: Register, i32, with the depth of the last access; only ragged stacks use it.
        empty: Row of zeros that is read where the stack is empty.
    """

    stack: StackLayout
    ragged: bool
    single: bool
    base: ir.LLVMValue
    capacity: ir.LLVMValue
    depth: ir.LLVMValue
    hint: ir.LLVMValue
    empty: ir.LLVMValue

    @property
    def dtype(self) -> Scalar:
        """Return the type of the values on the stack."""
        return self.stack.alloca.dtype


def _stack(e: LaneEmitter, name: str) -> LaneStack:
    """Return the LaneStack for the adstack with this name; the first call creates it at the function's head."""
    if name not in e.lane_stacks:
        stack = next(s for s in e.m.layout.stacks if s.task == e.task and s.alloca.stack == name)
        ragged = name in e.u.ragged
        t = e.wide(memory_type(stack.alloca.dtype))
        empty = e.alloca(t, 2)
        for part in (0, 1):
            e.entry.store(const(t, 0), e.entry.gep(empty, const(I64, part), t))
        capacity: ir.LLVMValue = e.slot(stack.capacity_at)
        hint: ir.LLVMValue = const(I64, 0)
        if ragged:
            hint = e.alloca(I32)
            e.entry.store(const(I32, 0), hint)
            # Depths of lanes are i32, so the capacity is cut to what these can hold.
            limit = e.entry.icmp_unsigned("<", capacity, const(I64, _DEEPEST))
            capacity = e.entry.trunc(e.entry.select(limit, capacity, const(I64, _DEEPEST)), I32)
        depth = e.alloca(e.wide(I32) if ragged else I64)
        e.lane_stacks[name] = LaneStack(
            stack, ragged, name not in e.u.mixed, _base(e, stack), capacity, depth, hint, empty
        )
    return e.lane_stacks[name]


def _base(e: LaneEmitter, stack: StackLayout) -> ir.LLVMValue:
    """Return the address of the first slot in the function's row, computed at the head of the function."""
    b, layout = e.entry, e.m.layout
    row = b.mul(e.row, e.slot(layout.strides[stack.task, stack.slab]))
    before = b.mul(b.add(row, e.slot(stack.offset_at)), const(I64, e.lanes))
    return b.gep(e.slot_address(layout.slabs[stack.slab]), before, I8)


def _slot(e: LaneEmitter, s: LaneStack, number: ir.LLVMValue) -> ir.LLVMValue:
    """Return the address of the primal of lane 0 in a slot; the number of the slot is a scalar, i64 or i32."""
    wide = number if number.type == I64 else e.b.zext(number, I64)
    return e.b.gep(s.base, e.b.mul(wide, const(I64, s.stack.slot_bytes * e.lanes)), I8)


def _part(e: LaneEmitter, s: LaneStack, slot: ir.LLVMValue, part: int) -> ir.LLVMValue:
    """Return the address of the primals (part 0) or adjoints (part 1) of a slot."""
    return e.b.gep(slot, const(I64, part), e.wide(memory_type(s.dtype))) if part else slot


@MASKED.row(n.StackAlloca)
def _alloca(e: LaneEmitter, stmt: n.StackAlloca) -> None:
    s = _stack(e, stmt.stack)
    if not s.ragged:
        e.b.store(const(I64, 0), s.depth)
        return
    _set_depth(e, s, const(e.wide(I32), 0))
    e.b.store(const(I32, 0), s.hint)


# ---- stacks of one depth ------------------------------------------------------------------------------------


def _top(e: LaneEmitter, s: LaneStack) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (depth after a pop, address of the top slot) of a stack whose depth is the same in all lanes."""
    depth = e.b.load(s.depth, I64)
    filled = e.b.icmp_unsigned("!=", depth, const(I64, 0))
    under = e.b.select(filled, e.b.sub(depth, const(I64, 1)), const(I64, 0))
    return under, e.b.select(filled, _slot(e, s, under), s.empty)


def _aligned(t: ir.Type) -> int:
    """Return the alignment of an element type in bytes."""
    return {"i8": 1, "i16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}[t.name]


def check_room_once(e: LaneEmitter, loop: n.For, trips: ir.LLVMValue) -> frozenset[str]:
    """Emit one capacity check before a loop for stacks of equal depth in all lanes; return these stacks' names."""
    found = {name: _stack(e, name) for name in pushes_of_a_trip(loop)}
    even = {name: s for name, s in found.items() if not s.ragged}
    for name, s in even.items():
        check_room(e, loop, pushes_of_a_trip(loop)[name], trips, e.b.load(s.depth, I64), s.capacity)
    return frozenset(even)


def _even_push(e: LaneEmitter, s: LaneStack, value: ir.LLVMValue, site: int) -> None:
    """Emit a push onto an adstack whose depth is the same in all lanes."""
    b = e.b
    depth = b.load(s.depth, I64)
    deeper = b.add(depth, const(I64, 1))
    if s.stack.alloca.stack not in e.flow.roomy:
        e.flow.trap_if(b.icmp_unsigned(">=", depth, s.capacity), site, deeper, s.capacity)
    t = memory_type(s.dtype)
    # The lanes that are not active have not pushed and never read this slot, so all lanes may be overwritten.
    content = value if s.single else e.splat(value)
    slot = _slot(e, s, depth)
    b.store(content, slot, _aligned(t))
    if s.stack.alloca.adjoint:
        b.store(const(content.type, 0), _part(e, s, slot, 1), _aligned(t))
    b.store(deeper, s.depth)


# ---- ragged stacks ------------------------------------------------------------------------------------------


def _set_depth(e: LaneEmitter, s: LaneStack, depth: ir.LLVMValue) -> None:
    """Set the depth of a stack in the active lanes; the other lanes keep theirs."""
    old = e.b.load(s.depth, depth.type)
    e.b.store(e.b.select(e.flow.mask, depth, old), s.depth)


def _together(
    e: LaneEmitter,
    s: LaneStack,
    run: Callable[[ir.LLVMValue], ir.LLVMValue | None],
    apart: Callable[[ir.LLVMValue], ir.LLVMValue | None],
) -> ir.LLVMValue | None:
    """Emit an access to a stack twice: for equal depths in all active lanes, and for different depths.

    Args:
        e: Emitter of the function.
        s: The stack.
        run: Emits the access where all active lanes have the depth of the hint.
        apart: Emits the access where the depths of the lanes differ.

    Returns:
        The value of the access, or None if it has none.
    """
    b, mask = e.b, e.flow.mask
    depths, hint = b.load(s.depth, e.wide(I32)), b.load(s.hint, I32)
    # These are the active lanes that are not at the depth of the hint.
    off = b.and_(mask, b.icmp_unsigned("!=", depths, e.splat(hint)))
    one, many, done = (e.flow.append(f"stack.{part}") for part in ("run", "apart", "done"))
    b.cbranch(e.any(off), many, one)
    found: list[tuple[ir.LLVMValue, ir.BasicBlock]] = []
    for block, access, at in ((one, run, hint), (many, apart, depths)):
        b.position_at_end(block)
        made = access(at)
        if block is many:
            # The deepest active lane gives the next hint.
            b.store(e.reduce("umax", b.select(mask, depths, const(depths.type, 0))), s.hint)
        if made is not None:
            found.append((made, b.block))
        b.branch(done)
    b.position_at_end(done)
    if not found:
        return None
    out = b.phi(found[0][0].type)
    for value, block in found:
        out.add_incoming(value, block)
    return out


def _places(e: LaneEmitter, s: LaneStack, numbers: ir.LLVMValue, part: int) -> LanePlace:
    """Return the address of each lane's element in its own slot, whose number is that lane's element of `numbers`."""
    t = memory_type(s.dtype)
    wide = e.b.zext(numbers, e.wide(I64))
    per_slot = e.lanes * (2 if s.stack.alloca.adjoint else 1)
    within = e.b.add(e.b.mul(wide, e.const(wide, per_slot)), e.numbers(I64))
    return LanePlace("apart", e.b.geps(_part(e, s, s.base, part), within, t))


def _ragged_push(e: LaneEmitter, s: LaneStack, value: ir.LLVMValue, site: int) -> None:
    """Push a value onto a stack whose depth may differ between lanes."""
    b = e.b
    content = e.splat(value)
    parts = [content, const(content.type, 0)] if s.stack.alloca.adjoint else [content]
    capacity = e.slot(s.stack.capacity_at)
    more = b.add(capacity, const(I64, 1))

    def run(depth: ir.LLVMValue) -> None:
        e.flow.trap_if(b.icmp_unsigned(">=", depth, s.capacity), site, more, capacity)
        slot = _slot(e, s, depth)
        for part, vector in enumerate(parts):
            write(e, LanePlace("run", _part(e, s, slot, part)), vector)

    def apart(depths: ir.LLVMValue) -> None:
        full = b.icmp_unsigned(">=", depths, e.splat(s.capacity))
        e.flow.trap_if(e.any(b.and_(full, e.flow.mask)), site, more, capacity)
        for part, vector in enumerate(parts):
            write(e, _places(e, s, depths, part), vector)

    _together(e, s, run, apart)
    depths = b.load(s.depth, e.wide(I32))
    _set_depth(e, s, b.add(depths, const(depths.type, 1)))
    # The hint moves with the lanes.
    b.store(b.add(b.load(s.hint, I32), const(I32, 1)), s.hint)


def _ragged_pop(e: LaneEmitter, s: LaneStack) -> None:
    """Pop one value off each active lane's stack, where the depth of the stack may differ between lanes."""
    b = e.b
    for place, t in ((s.depth, e.wide(I32)), (s.hint, I32)):
        old = b.load(place, t)
        filled = b.icmp_unsigned("!=", old, const(t, 0))
        fewer = b.sub(old, b.zext(filled, t))
        if place is s.depth:
            _set_depth(e, s, fewer)
        else:
            b.store(fewer, place)


def _ragged_read(e: LaneEmitter, s: LaneStack, part: int) -> ir.LLVMValue:
    """Return the top primals (part 0) or adjoints (part 1) of a stack whose depth may differ between lanes."""
    b, t = e.b, memory_type(s.dtype)

    def run(depth: ir.LLVMValue) -> ir.LLVMValue:
        return b.load(_part(e, s, _top_at(e, s, depth), part), e.wide(t), _aligned(t))

    def apart(depths: ir.LLVMValue) -> ir.LLVMValue:
        with _filled(e, depths) as under:
            return read(e, _places(e, s, under, part), t)

    found = _together(e, s, run, apart)
    assert found is not None
    return found


def _top_at(e: LaneEmitter, s: LaneStack, depth: ir.LLVMValue) -> ir.LLVMValue:
    """Return the address of the top slot of a stack with this depth, or of a slot of zeros if the depth is 0."""
    filled = e.b.icmp_unsigned("!=", depth, const(I32, 0))
    return e.b.select(filled, _slot(e, s, e.b.sub(depth, const(I32, 1))), s.empty)


class _filled:
    """Restrict the mask in the `with` block to lanes whose stack is not empty, and yield their top slots' numbers."""

    def __init__(self, e: LaneEmitter, depths: ir.LLVMValue) -> None:
        self.e, self.outer = e, e.flow.mask
        zero = const(depths.type, 0)
        filled = e.b.icmp_unsigned("!=", depths, zero)
        self.under = e.b.select(filled, e.b.sub(depths, const(depths.type, 1)), zero)
        self.mask = e.b.and_(self.outer, filled)

    def __enter__(self) -> ir.LLVMValue:
        self.e.flow.mask = self.mask
        return self.under

    def __exit__(self, *error: object) -> None:
        self.e.flow.mask = self.outer


def _ragged_accumulate(e: LaneEmitter, s: LaneStack, value: ir.LLVMValue) -> None:
    """Add a value to the top adjoint of a stack whose depth may differ between lanes."""
    t, added = memory_type(s.dtype), e.splat(value)

    def update(place: LanePlace) -> None:
        write(e, place, apply(e, "add", (s.dtype, s.dtype), read(e, place, t), added))

    def run(depth: ir.LLVMValue) -> None:
        filled = e.b.icmp_unsigned("!=", depth, const(I32, 0))
        outer = e.flow.mask
        e.flow.mask = e.b.and_(outer, e.splat(filled))
        update(LanePlace("run", _part(e, s, _top_at(e, s, depth), 1)))
        e.flow.mask = outer

    def apart(depths: ir.LLVMValue) -> None:
        with _filled(e, depths) as under:
            update(_places(e, s, under, 1))

    _together(e, s, run, apart)


# ---- rows ---------------------------------------------------------------------------------------------------


@MASKED.row(n.StackPush)
def _push(e: LaneEmitter, stmt: n.StackPush) -> None:
    s = _stack(e, stmt.stack)
    value = to_memory(e, e.operand(stmt.value), s.dtype.is_bool)
    (_ragged_push if s.ragged else _even_push)(e, s, value, e.m.site("overflow", e.task, stmt))


@MASKED.row(n.StackPop)
def _pop(e: LaneEmitter, stmt: n.StackPop) -> None:
    s = _stack(e, stmt.stack)
    if s.ragged:
        _ragged_pop(e, s)
    else:
        e.b.store(_top(e, s)[0], s.depth)


def _read(e: LaneEmitter, stmt: n.StackTop | n.StackTopAdjoint, part: int) -> None:
    """Set the result of a statement to the primals (part 0) or adjoints (part 1) on top of a stack."""
    s = _stack(e, stmt.stack)
    t = memory_type(s.dtype)
    if s.ragged:
        content = _ragged_read(e, s, part)
    else:
        place = _part(e, s, _top(e, s)[1], part)
        content = e.b.load(place, t if s.single else e.wide(t), _aligned(t))
    e.values[stmt.result] = from_memory(e, content, s.dtype.is_bool)


@MASKED.row(n.StackTop)
def _load_top(e: LaneEmitter, stmt: n.StackTop) -> None:
    _read(e, stmt, 0)


@MASKED.row(n.StackTopAdjoint)
def _load_top_adjoint(e: LaneEmitter, stmt: n.StackTopAdjoint) -> None:
    _read(e, stmt, 1)


@MASKED.row(n.StackAccumulate)
def _accumulate(e: LaneEmitter, stmt: n.StackAccumulate) -> None:
    """Add a value to the adjoint on top of a stack."""
    s = _stack(e, stmt.stack)
    if s.ragged:
        _ragged_accumulate(e, s, e.operand(stmt.value))
        return
    b, t = e.b, memory_type(s.dtype)
    # On a stack of one depth all lanes write, those that are not active their old value; an empty stack keeps its
    # zeros.
    place = _part(e, s, _top(e, s)[1], 1)
    filled = b.icmp_unsigned("!=", b.load(s.depth, I64), const(I64, 0))
    value = e.operand(stmt.value) if s.single else e.vector(stmt.value)
    old = b.load(place, value.type, _aligned(t))
    new = b.select(filled, apply(e, "add", (s.dtype, s.dtype), old, value), old)
    if not s.single:
        new = b.select(e.flow.mask, new, old)
    b.store(new, place, _aligned(t))
