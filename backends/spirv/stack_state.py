"""This module tracks the cursors of a shader's adstacks, one cursor for all adstacks that grow and shrink together.

Stacks that always have one depth (equal_depths.py) and slots of one size in one slab form a group. The cursor is the
address of the first free slot of the group's first stack. The free slots of the other stacks lie at distances known at
the head of the shader, and so does the address at which a stack is full. Between two changes of a group's depth, its
stacks differ from the cursor by numbers known at compile time, `pending`; when all are equal again, they go into the
cursor. So a push is a store and an addition, and no access to a slot needs a multiplication.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...compiler.analysis.equal_depths import lockstep
from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.layout import StackLayout
from .code import I64
from .emit import Emitter
from .variables import ShaderVariable


@dataclass
class StackGroup:
    """Represent stacks that always have equal depths and slots of one size, so that one cursor serves all.

    Attributes:
        cursor: variable with the address of the first free slot of the first stack
        base: the cursor where the stacks are empty
        limit: the cursor where the stack with the least capacity is full
        pitch: bytes from a slot to the next slot of the same row
        capacity: least capacity of the stacks, in slots
        pending: slots to be added to the cursor, by stack
        checked: depths, relative to the cursor's, at which a push was compared with the limit
    """

    cursor: ShaderVariable
    base: ir.LLVMValue
    limit: ir.LLVMValue
    pitch: ir.LLVMValue
    capacity: ir.LLVMValue
    pending: dict[str, int]
    checked: set[int] = field(default_factory=set)

    def set(self, cursor: ir.LLVMValue) -> None:
        """Emit a store of a new cursor for all stacks of the group."""
        self.cursor.set(cursor)
        self.checked.clear()
        self.pending = dict.fromkeys(self.pending, 0)

    def place(self, e: Emitter, stack: str) -> ir.LLVMValue:
        """Return the cursor of one adstack: that of its group, moved by the pushes and pops still missing in it.

        The place lies below the base where the stack popped more than it held.
        """
        return self.moved(e, self.pending[stack])

    def moved(self, e: Emitter, slots: int) -> ir.LLVMValue:
        """Return the group's cursor advanced by a number of slots, which may be negative."""
        b, cursor = e.b, self.cursor.get()
        distance = b.mul(self.pitch, e.word(abs(slots)))
        return b.sub(cursor, distance) if slots < 0 else b.add(cursor, distance)

    def move(self, e: Emitter, stack: str, change: int, sure: bool = False) -> None:
        """Record a push (1) or pop (-1) of one adstack; move the group's cursor once all its stacks did the same.

        Args:
            e: emitter of the task
            stack: name of the stack
            change: 1 for a push, -1 for a pop
            sure: True if the stack is known to hold a value; otherwise the cursor stays at the base of an empty stack
        """
        self.pending[stack] += change
        (level, *others) = {*self.pending.values()}
        if not others:
            self.checked.clear()
            if level:
                there = self.moved(e, level)
                self.set(self.at_least_base(e, there) if level < 0 and not sure else there)

    def at_least_base(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return a cursor of a stack, or the base of the stack if the cursor is below the base."""
        return e.b.select(e.b.icmp_signed("<", place, self.base), self.base, place)

    def depth(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of slots below a cursor, for error messages. It costs a division."""
        none = e.b.icmp_unsigned("==", self.pitch, e.word(0))
        return e.b.udiv(e.b.sub(place, self.base), e.b.select(none, e.word(1), self.pitch))


@dataclass(frozen=True)
class StackState:
    """Represent an adstack of the shader with its group, the adstacks that grow and shrink together with it.

    Attributes:
        stack: the stack in the layout
        group: the group to which it belongs
        distance: bytes from the slots of the group's first stack to its own
    """

    stack: StackLayout
    group: StackGroup
    distance: ir.LLVMValue

    @property
    def dtype(self) -> Scalar:
        """Return the dtype of the values of the stack."""
        return self.stack.alloca.dtype

    def place(self, e: Emitter) -> ir.LLVMValue:
        """Return the cursor of the first free slot of this stack, which `slot` converts to an address."""
        return self.group.place(e, self.stack.alloca.stack)

    def slot(self, e: Emitter, place: ir.LLVMValue, part: int) -> ir.LLVMValue:
        """Return the address of the primal (part 0) or the adjoint (part 1) of the slot at the cursor `place`."""
        return e.b.add(e.b.add(place, self.distance), e.word(part * self.dtype.size))


def state_of(e: Emitter, name: str) -> StackState:
    """Return the StackState of the adstack `name`. The first call creates all groups of adstacks of the task."""
    if not e.stacks:
        numbers = lockstep(e.m.kernel.tasks[e.task].body)
        groups: dict[object, list[StackLayout]] = {}
        for stack in e.m.layout.stacks:
            if stack.task == e.task:
                key = numbers[stack.alloca.stack], stack.slab, stack.slot_bytes
                groups.setdefault(key, []).append(stack)
        for members in groups.values():
            _enter(e, members)
    found = e.stacks[name]
    assert isinstance(found, StackState)
    return found


def _enter(e: Emitter, stacks: list[StackLayout]) -> None:
    """Create one group, with one cursor, for adstacks of one slab that grow together and have equal slot sizes."""
    b, layout, first = e.b, e.m.layout, stacks[0]
    rows, start = e.slot(layout.rows[first.task, first.slab]), e.address_of_slab(first.slab)
    offsets, capacities = [e.slot(s.offset_at) for s in stacks], [e.slot(s.capacity_at) for s in stacks]
    with b.at_head():
        # A task without rows has no slots. Then every thread reads row 0.
        none = b.icmp_unsigned("==", rows, e.word(0))
        start = b.add(start, b.mul(b.select(none, e.word(0), e.row), e.word(first.slot_bytes)))
        bases = [b.add(start, b.mul(offset, rows)) for offset in offsets]
        pitch = b.mul(rows, e.word(first.slot_bytes))
        capacity = capacities[0]
        for other in capacities[1:]:
            capacity = b.select(b.icmp_unsigned("<", other, capacity), other, capacity)
        limit = b.add(bases[0], b.mul(capacity, pitch))
        # Everything that never changes stands at the head of the shader.
        distances = [b.sub(base, bases[0]) if k else e.word(0) for k, base in enumerate(bases)]
    names = [s.alloca.stack for s in stacks]
    group = StackGroup(b.scalar(I64), bases[0], limit, pitch, capacity, dict.fromkeys(names, 0))
    for name, stack, distance in zip(names, stacks, distances):
        e.stacks[name] = StackState(stack, group, distance)
