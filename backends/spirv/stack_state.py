"""The adstacks of a shader being written: a cursor for all that grow and shrink together.

Stacks that always have one depth (lockstep.py) and slots of one size in one slab form a group. The cursor is the
address of the first free slot of the group's first stack; those of the others lie at distances known at the head, and
so does the address at which the stack is full. Between two changes of a group's depth its stacks differ by numbers
known here, `pending`; when all are equal again they go into the cursor. So a push is a store and an addition, and
nothing is multiplied where slots are accessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...compiler.ir.types import Scalar
from ...compiler.passes.lockstep import lockstep
from ..llvm import ir
from ..llvm.layout import Stack
from .code import I64
from .emit import Emitter
from .variables import Variable


@dataclass
class Group:
    """Stacks of one depth and pitch. base, limit: the cursor where they are empty, and where one is full.

    capacity: the least. pending: by stack, slots to be added to the cursor. checked: depths, counted from the cursor's,
    that a push was compared at.
    """

    cursor: Variable
    base: ir.Value
    limit: ir.Value
    pitch: ir.Value
    capacity: ir.Value
    pending: dict[str, int]
    checked: set[int] = field(default_factory=set)

    def set(self, cursor: ir.Value) -> None:
        """From here on this is the cursor of all."""
        self.cursor.set(cursor)
        self.checked.clear()
        self.pending = dict.fromkeys(self.pending, 0)

    def place(self, e: Emitter, stack: str) -> ir.Value:
        """Where the cursor would stand if it were that of this stack alone; below the base where it popped too much."""
        return self.moved(e, self.pending[stack])

    def moved(self, e: Emitter, slots: int) -> ir.Value:
        """The cursor so many slots on."""
        b, cursor = e.b, self.cursor.get()
        distance = b.mul(self.pitch, e.word(abs(slots)))
        return b.sub(cursor, distance) if slots < 0 else b.add(cursor, distance)

    def move(self, e: Emitter, stack: str, change: int, sure: bool = False) -> None:
        """A stack grows or shrinks by one. The cursor does when all have; of an empty stack it stays at the base.

        sure: the stack is not empty.
        """
        self.pending[stack] += change
        (level, *others) = {*self.pending.values()}
        if not others:
            self.checked.clear()
            if level:
                there = self.moved(e, level)
                self.set(self.at_least_base(e, there) if level < 0 and not sure else there)

    def at_least_base(self, e: Emitter, place: ir.Value) -> ir.Value:
        """The place, or the base where it lies below."""
        return e.b.select(e.b.icmp_signed("<", place, self.base), self.base, place)

    def depth(self, e: Emitter, place: ir.Value) -> ir.Value:
        """Number of slots below a place: a division, for messages."""
        none = e.b.icmp_unsigned("==", self.pitch, e.word(0))
        return e.b.udiv(e.b.sub(place, self.base), e.b.select(none, e.word(1), self.pitch))


@dataclass(frozen=True)
class StackState:
    """A stack of the shader: its group, and how far behind the cursor's its slots lie."""

    stack: Stack
    group: Group
    distance: ir.Value

    @property
    def dtype(self) -> Scalar:
        return self.stack.alloca.dtype

    def place(self, e: Emitter) -> ir.Value:
        """The cursor of this stack, in terms of its group's."""
        return self.group.place(e, self.stack.alloca.stack)

    def slot(self, e: Emitter, place: ir.Value, part: int) -> ir.Value:
        """Address of the primal (part 0) or adjoint (part 1) of the slot at a place."""
        return e.b.add(e.b.add(place, self.distance), e.word(part * self.dtype.size))


def state_of(e: Emitter, name: str) -> StackState:
    """The stack of this name in the shader being written."""
    if not e.stacks:
        numbers = lockstep(e.m.kernel.tasks[e.task].body)
        groups: dict[object, list[Stack]] = {}
        for stack in e.m.layout.stacks:
            if stack.task == e.task:
                key = numbers[stack.alloca.stack], stack.slab, stack.slot_bytes
                groups.setdefault(key, []).append(stack)
        for members in groups.values():
            _enter(e, members)
    found = e.stacks[name]
    assert isinstance(found, StackState)
    return found


def _enter(e: Emitter, stacks: list[Stack]) -> None:
    """Make the group of these stacks, all of one slab and size; what never changes stands at the head."""
    b, layout, first = e.b, e.m.layout, stacks[0]
    rows, start = e.slot(layout.rows[first.task, first.slab]), e.address_of_slab(first.slab)
    offsets, capacities = [e.slot(s.offset_at) for s in stacks], [e.slot(s.capacity_at) for s in stacks]
    with b.at_head():
        none = b.icmp_unsigned("==", rows, e.word(0))
        start = b.add(start, b.mul(b.select(none, e.word(0), e.row), e.word(first.slot_bytes)))
        bases = [b.add(start, b.mul(offset, rows)) for offset in offsets]
        pitch = b.mul(rows, e.word(first.slot_bytes))
        capacity = capacities[0]
        for other in capacities[1:]:
            capacity = b.select(b.icmp_unsigned("<", other, capacity), other, capacity)
        limit = b.add(bases[0], b.mul(capacity, pitch))
        distances = [b.sub(base, bases[0]) if k else e.word(0) for k, base in enumerate(bases)]
    names = [s.alloca.stack for s in stacks]
    group = Group(b.scalar(I64), bases[0], limit, pitch, capacity, dict.fromkeys(names, 0))
    for name, stack, distance in zip(names, stacks, distances):
        e.stacks[name] = StackState(stack, group, distance)
