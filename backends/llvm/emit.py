"""This module defines Emitter, the state of one function being emitted as LLVM IR.

Table entries touch memory and control only through its `flow`, so that masked code can use the same entries with
another flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.cached import cached_property
from ...compiler.ir.nodes import Atomic
from ...compiler.ir.statement import Value
from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.launch_conditions import needs_comparisons
from ..codegen.task_emitter import TaskEmitter
from ..codegen.types import I8, I64, const, like, pointer, value_type

if TYPE_CHECKING:
    from .branching.control import Branching
    from .branching.stack_state import StackState


@dataclass(frozen=True)
class StackVariable:
    """Represent the stack memory of a mutable scalar (size None) or of a local array in a function.

    Attributes:
        address: Address of the memory.
        dtype: Type of the scalar or of an element.
        size: Number of elements of an array.
        is_shared: The memory is that of a thread block.
    """

    address: ir.LLVMValue
    dtype: Scalar
    size: int | None = None
    is_shared: bool = False


class Emitter(ArithEmitter, TaskEmitter):
    """Represent one function being emitted as LLVM IR; `task` is the index of its task.

    Loads from the argument block stand in the entry block, once each, because the block does not change during a
    launch.

    Attributes:
        flow: Emits control flow, and access to memory.
        box: Address of begins and extents of the task's axes; None if they stand in the argument block.
        failed: Block that an iteration goes to after recording an error; None if it leaves the function.
        strayed: Register in which a function that ends no launch notes that an index was outside.
        values: LLVM value of each IR value.
        locals: Stack memory of each local, by name.
        fixed: Value of each local that needs no memory, by name; None before it is set.
        draws: Register with the number of draws of the iteration.
        ticks: Register that counts rounds of loops, see polls.py.
        iteration: Number of the iteration, i64.
        row: Row of the adstacks that the function uses, i64.
        stacks: State of each adstack, by name.
        private: Updates that the thread collects in a register and makes at the end of the task.
        partners: Results, computed ahead, of operations that follow (pairs.py).
        late: Writes to memory that are put off until the loads of all iterations of a group; None if none are.
        numbered: Arrays whose element at the task's own indices has the number of the iteration.
        index_numbers: Indices in 64 bits, where a GPU keeps them.
    """

    flow: Branching
    box: ir.LLVMValue | None = None
    failed: ir.BasicBlock | None = None
    strayed: ir.LLVMValue | None = None

    def __init__(self, m: ModuleState, function: ir.LLVMFunction, task: int) -> None:
        m.module.lines.enter(function, task)
        self.entry = IRBuilder(function.append_basic_block("entry"))
        super().__init__(m, IRBuilder(function.append_basic_block("start")))
        self.function = function
        self.task = task
        self.argument_block = function.args[0]
        self.values: dict[Value, ir.LLVMValue] = {}
        self.locals: dict[str, StackVariable] = {}
        self.fixed: dict[str, ir.LLVMValue | None] = {}
        self.draws: ir.LLVMValue | None = None
        self.ticks: ir.LLVMValue | None = None
        self.iteration: ir.LLVMValue = const(I64, 0)
        self.row: ir.LLVMValue = const(I64, 0)
        self.stacks: dict[str, StackState] = {}
        self.private: dict[Atomic, ir.LLVMValue] = {}
        self.partners: dict[Value, ir.LLVMValue] = {}
        self.late: list[Callable[[], object]] | None = None
        self.numbered: frozenset[str] = frozenset()
        self.index_numbers: dict[Value, ir.LLVMValue] = {}
        self._slots: dict[tuple[int, ir.Type], ir.LLVMValue] = {}

    # -- the argument block ---------------------------------------------------------------------------------

    def slot_pointer(self, at: int, builder: IRBuilder | None = None) -> ir.LLVMValue:
        """Return the address of the word at byte offset `at` of the argument block."""
        return (builder or self.b).gep(self.argument_block, const(I64, at), I8, inbounds=True)

    def slot(self, at: int, t: ir.Type = I64) -> ir.LLVMValue:
        """Return a word of the argument block, which is read once at the head of the function."""
        key = at, t
        if key not in self._slots:
            self._slots[key] = self.entry.load(self.slot_pointer(at, self.entry), t)
        return self._slots[key]

    def slot_address(self, at: int) -> ir.LLVMValue:
        """Return the address that a word of the argument block holds."""
        return self.slot(at, pointer(self.m.target.space))

    def temp(self, at: int) -> ir.LLVMValue:
        """Return the address of a temporary: in the argument block on a CPU, in the device state on a GPU."""
        if not self.m.layout.device:
            return self.slot_pointer(at)
        return self.b.gep(self.slot_address(self.m.layout.state_at), const(I64, at), I8, inbounds=True)

    def bound(self, axis: int, part: int) -> ir.LLVMValue:
        """Return the begin (part 0) or extent (part 1) of an axis of the task's box, read at the function's head."""
        at = 16 * axis + 8 * part
        if self.box is None:
            return self.slot(self.m.layout.boxes[self.task] + at)
        # Byte offsets of slots are not negative, so this key meets none of them.
        key = -1 - at, I64
        if key not in self._slots:
            self._slots[key] = self.entry.load(self.entry.gep(self.box, const(I64, at), I8, inbounds=True), I64)
        return self._slots[key]

    @cached_property
    def needs_comparisons(self) -> ir.LLVMValue:
        """Return the condition that this launch needs index checks, computed at the function's head."""
        around, self.b = self.b, self.entry
        found = needs_comparisons(self)
        self.b = around
        return found

    # -- values ---------------------------------------------------------------------------------------------

    def operand(self, value: Value) -> ir.LLVMValue:
        """Return the LLVM value of an IR value."""
        return self.values[value]

    def alloca(self, t: ir.Type, count: int | None = None) -> ir.LLVMValue:
        """Allocate stack memory in the function's entry block and return its address."""
        return self.entry.alloca(t, count or 1)

    def to_i64(self, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
        """Return an integer value widened to 64 bits, with sign extension if its type is signed."""
        if t.bits == 64:
            return value
        wide = like(value.type, I64)
        return self.b.sext(value, wide) if t.is_signed else self.b.zext(value, wide)

    def set_index(self, value: Value, number: ir.LLVMValue) -> None:
        """Set the IR value of a loop index from a 64-bit integer."""
        self.values[value] = self.from_i64(number, value.type)
        # A GPU multiplies addresses out, so it keeps the number in 64 bits as well.
        if self.m.target.entries:
            self.index_numbers[value] = number

    def index(self, value: Value) -> ir.LLVMValue:
        """Return an index operand as a 64-bit integer."""
        return self.index_numbers.get(value) or self.to_i64(self.operand(value), value.type)

    def from_i64(self, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
        """Return the low bits of a 64-bit integer as a value of an integer type."""
        return value if t.bits == 64 else self.b.trunc(value, like(value.type, value_type(t)))

    def finish(self) -> None:
        """Emit the branch from the entry block to the function's code."""
        self.entry.branch(self.function.blocks[1])
