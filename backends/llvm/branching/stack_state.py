"""This module tracks the adstacks of a function being emitted: address of the row, depth, and capacity."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....compiler.analysis.equal_depths import lockstep
from ....compiler.ir.types import Scalar
from ...codegen import ir
from ...codegen.layout import StackLayout
from ...codegen.types import I8, I64, const, memory_type
from ..emit import Emitter


@dataclass
class StackGroup:
    """Represent adstacks whose depths are always equal, so that one register holds the depth of all of them.

    Attributes:
        register: Stack memory that holds the depth.
        capacity: Least capacity of the stacks.
        pending: By name of the stack, the number to be added to the register's value to get the depth.
        checked: Depths, relative to the register's value, at which a push was compared with the capacity.
        known: The value of the register in this basic block, with the block; None if it has to be loaded.
    """

    register: ir.LLVMValue
    capacity: ir.LLVMValue
    pending: dict[str, int]
    checked: set[int] = field(default_factory=set)
    known: tuple[ir.BasicBlock, ir.LLVMValue] | None = None

    def depth(self, e: Emitter) -> ir.LLVMValue:
        """Emit a load of the depth that the stacks of the group share, and return it."""
        if self.known is None or self.known[0] is not e.b.block:
            self.known = e.b.block, e.flow.load(I64, self.register)
        return self.known[1]

    def set(self, e: Emitter, depth: ir.LLVMValue) -> None:
        """Emit a store of a new depth for all stacks of the group."""
        e.flow.store(depth, self.register)
        self.known = e.b.block, depth
        self.checked.clear()
        self.pending = dict.fromkeys(self.pending, 0)

    def jump(self, e: Emitter, change: ir.LLVMValue) -> None:
        """Emit an addition of `change` to the depth of all stacks of the group."""
        depth = e.b.add(self.depth(e), change)
        e.flow.store(depth, self.register)
        self.known = e.b.block, depth
        self.checked.clear()

    def move(self, e: Emitter, stack: str, change: int, sure: bool = False) -> None:
        """Record a push (1) or pop (-1) of one stack, and emit the new depth once all stacks of the group have it.

        Args:
            e: Emitter of the function.
            stack: Name of the stack.
            change: 1 or -1.
            sure: The stack is not empty, so the depth need not be kept from falling below 0.
        """
        self.pending[stack] += change
        # The set has a single number when all stacks of the group have moved alike.
        (level, *others) = {*self.pending.values()}
        if not others:
            moved = e.b.add(self.depth(e), const(I64, level))
            if level < 0 and not sure:
                moved = e.b.select(e.b.icmp_signed(">", moved, const(I64, 0)), moved, const(I64, 0))
            self.set(e, moved) if level else self.checked.clear()


@dataclass(frozen=True)
class StackState:
    """Represent an adstack in the function being emitted: address, slot distance, and group of equal depth.

    Attributes:
        stack: Place of the stack in the argument block.
        group: Group that holds the depth.
        base: Address of the stack in its row.
        pitch: Distance between slots, in elements.
    """

    stack: StackLayout
    group: StackGroup
    base: ir.LLVMValue
    pitch: ir.LLVMValue

    @property
    def dtype(self) -> Scalar:
        """Return the type of the values on the stack."""
        return self.stack.alloca.dtype

    def depth(self, e: Emitter) -> ir.LLVMValue:
        """Return the current depth of the stack as an LLVM value."""
        return e.b.add(self.group.depth(e), const(I64, self.group.pending[self.stack.alloca.stack]))


@dataclass(frozen=True)
class Cursor:
    """Represent a register that holds the address of an adstack's next push or pop.

    Attributes:
        place: Register with the address of a slot.
        space: Type of the address.
        step: Bytes from one slot to the next.
    """

    place: ir.LLVMValue
    space: ir.Type
    step: ir.LLVMValue

    @classmethod
    def of(cls, e: Emitter, s: StackState, at: int) -> Cursor:
        """Create a cursor that points to the slot number depth + `at` of a stack."""
        t = memory_type(s.dtype)
        made = cls(e.alloca(s.base.type), s.base.type, e.entry.mul(s.pitch, const(I64, s.dtype.size)))
        number = e.b.add(s.depth(e), const(I64, at))
        e.flow.store(e.b.gep(s.base, e.b.mul(number, s.pitch), t), made.place)
        return made

    def address(self, e: Emitter) -> ir.LLVMValue:
        """Emit a load of the address that the cursor holds."""
        return e.flow.load(self.space, self.place)

    def moved(self, e: Emitter, address: ir.LLVMValue, change: int) -> ir.LLVMValue:
        """Return the address of the slot above (change 1) or below (change -1) an address."""
        return e.b.gep(address, self.step if change > 0 else e.b.sub(const(I64, 0), self.step), I8)

    def move(self, e: Emitter, change: int) -> None:
        """Move the cursor up (change 1) or down (change -1) by one slot."""
        e.flow.store(self.moved(e, self.address(e), change), self.place)


def state_of(e: Emitter, name: str) -> StackState:
    """Return the StackState of the adstack with this name in the function being written."""
    if not e.stacks:
        mine = [s for s in e.m.layout.stacks if s.task == e.task]
        numbers = lockstep(e.m.kernel.tasks[e.task].body)
        for number in dict.fromkeys(numbers.values()):
            members = [s for s in mine if numbers[s.alloca.stack] == number]
            group = _group(e, members)
            for stack in members:
                e.stacks[stack.alloca.stack] = StackState(stack, group, *_place(e, stack))
    return e.stacks[name]


def _group(e: Emitter, stacks: list[StackLayout]) -> StackGroup:
    """Return a new StackGroup of these adstacks, with the smallest of their capacities."""
    capacity, *others = [e.slot(s.capacity_at) for s in stacks]
    for other in others:
        capacity = e.entry.select(e.entry.icmp_unsigned("<", other, capacity), other, capacity)
    return StackGroup(e.alloca(I64), capacity, {s.alloca.stack: 0 for s in stacks})


def _place(e: Emitter, stack: StackLayout) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Emit, at the function's head, the address of the stack's first slot and the distance of slots; return both."""
    layout, b = e.m.layout, e.entry
    key = stack.task, stack.slab
    width = 2 if stack.alloca.adjoint else 1
    start, offset = e.slot_address(layout.slabs[stack.slab]), e.slot(stack.offset_at)
    if e.m.target.interleaved:
        rows = e.slot(layout.rows[key])
        # Without rows every thread reads the front of the slab; see void_stacks.py.
        none = b.icmp_unsigned("==", rows, const(I64, 0))
        within = b.mul(b.select(none, const(I64, 0), e.row), const(I64, stack.slot_bytes))
        bytes_before = b.add(b.mul(offset, rows), within)
        pitch: ir.LLVMValue = b.mul(rows, const(I64, width))
    else:
        bytes_before = b.add(b.mul(e.row, e.slot(layout.strides[key])), offset)
        pitch = const(I64, width)
    return b.gep(start, bytes_before, I8), pitch
