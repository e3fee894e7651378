"""Rows of LOWER on adstacks.

The depth of a stack is a register (stack memory that LLVM promotes), which all stacks that always have one depth share
(lockstep.py). Between two of its changes the stacks of a group differ by numbers known here, `pending`: a push writes
slot depth + pending, and when all are equal again they go into the register. A slot is a primal, or a primal and then
its adjoint. The address of slot k of a row is base + row·stride + offset + k·slot bytes where rows are contiguous, and
base + offset·rows + (k·rows + row)·slot bytes where they are interleaved. The first push of a group to a depth compares
it with the least capacity of the group, in every build; reads below an empty or void stack give 0 and touch slot 0,
which always exists: the launcher gives a stack of capacity 0 the offset 0 and a base that holds at least one slot.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ...compiler.ir import nodes as n
from ...compiler.ir.types import Scalar
from ...compiler.passes.lockstep import lockstep
from . import ir
from .emit import Emitter
from .layout import Stack
from .ops import apply
from .statements import LOWER, from_memory, to_memory
from .types import I8, I64, const, memory_type


@dataclass
class Group:
    """Stacks of one depth. register: holds it. capacity: the least. pending: by stack, what is to be added to it.

    checked: depths, counted from the register's, that a push was compared at. known: the register, in this basic block.
    """

    register: ir.Value
    capacity: ir.Value
    pending: dict[str, int]
    checked: set[int] = field(default_factory=set)
    known: tuple[ir.Block, ir.Value] | None = None

    def depth(self, e: Emitter) -> ir.Value:
        """What the register holds."""
        if self.known is None or self.known[0] is not e.b.block:
            self.known = e.b.block, e.flow.load(I64, self.register)
        return self.known[1]

    def set(self, e: Emitter, depth: ir.Value) -> None:
        """From here on this is the depth of all."""
        e.flow.store(depth, self.register)
        self.known = e.b.block, depth
        self.checked.clear()
        self.pending = dict.fromkeys(self.pending, 0)

    def move(self, e: Emitter, stack: str, change: int) -> None:
        """A stack grows or shrinks by one. The depth does when all have; of an empty stack it stays 0."""
        self.pending[stack] += change
        (level, *others) = {*self.pending.values()}
        if not others:
            moved = e.b.add(self.depth(e), const(I64, level))
            if level < 0:
                moved = e.b.select(e.b.icmp_signed(">", moved, const(I64, 0)), moved, const(I64, 0))
            self.set(e, moved) if level else self.checked.clear()


@dataclass(frozen=True)
class StackState:
    """A stack of the function: its group, base address of its row, distance between slots."""

    stack: Stack
    group: Group
    base: ir.Value
    pitch: ir.Value

    @property
    def dtype(self) -> Scalar:
        return self.stack.alloca.dtype

    def depth(self, e: Emitter) -> ir.Value:
        """Number of its slots in use."""
        return e.b.add(self.group.depth(e), const(I64, self.group.pending[self.stack.alloca.stack]))


def _state(e: Emitter, name: str) -> StackState:
    if not e.stacks:
        mine = [s for s in e.m.layout.stacks if s.task == e.task]
        numbers = lockstep(e.m.kernel.tasks[e.task].body)
        for number in dict.fromkeys(numbers.values()):
            members = [s for s in mine if numbers[s.alloca.stack] == number]
            group = _group(e, members)
            for stack in members:
                e.stacks[stack.alloca.stack] = StackState(stack, group, *_place(e, stack))
    return e.stacks[name]


def _group(e: Emitter, stacks: list[Stack]) -> Group:
    capacity, *others = [e.slot(s.capacity_at) for s in stacks]
    for other in others:
        capacity = e.entry.select(e.entry.icmp_unsigned("<", other, capacity), other, capacity)
    return Group(e.alloca(I64), capacity, {s.alloca.stack: 0 for s in stacks})


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
    depth = s.depth(e)
    filled = e.b.icmp_signed(">", depth, const(I64, 0))
    return e.b.select(filled, e.b.sub(depth, const(I64, 1)), const(I64, 0)), filled


@LOWER.row(n.StackAlloca)
def _alloca(e: Emitter, stmt: n.StackAlloca) -> None:
    _state(e, stmt.stack).group.set(e, const(I64, 0))


@LOWER.row(n.StackPush)
def _push(e: Emitter, stmt: n.StackPush) -> None:
    s = _state(e, stmt.stack)
    group, level = s.group, s.group.pending[stmt.stack]
    if level not in group.checked:
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
    _state(e, stmt.stack).group.move(e, stmt.stack, -1)


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
