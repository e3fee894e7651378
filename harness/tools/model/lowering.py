"""Lower a program to a kernel of stage `source` without the frontend, to check the kernel that the frontend makes.

This module holds what all lowering functions share: names, frames and conversions. A number of the text stays a Python
number until it meets a type. Short circuits and choices always become branches; the frontend may compute both sides
instead, to the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import copysign
from typing import Any

from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Task
from ....compiler.ir.statement import Stmt, Value
from ....compiler.ir.table import Table
from ....compiler.ir.types import Scalar, i32, i64, promote, u1, u64
from . import nodes as m
from .tensors import StructOperand, TensorOperand, leaves

FEW = 8
"""Largest number of entries of a vector that may be held in scalars: an index of the launch takes a branch for each."""

ModelOperand = Value | bool | int | float | tuple[Any, ...] | TensorOperand | StructOperand
"""A value, a number of the text, several of these (results of `frexp` and of functions), a vector, matrix or struct."""


@dataclass(frozen=True)
class LocalSlot:
    """Represent a scalar local of the IR as the target of an assignment."""

    var: str
    dtype: Scalar


@dataclass(frozen=True)
class LocalArraySlot:
    """Represent an element of a local array of the IR as the target of an assignment."""

    var: str
    dtype: Scalar
    index: int

    def read(self, b: Builder) -> Value:
        """Emit a read of the element of the local array, and return its value."""
        return b.get_element(self.var, b.const(self.index, i32), self.dtype)

    def write(self, b: Builder, value: Value) -> None:
        """Emit a write of a value to the element of the local array."""
        b.set_element(self.var, b.const(self.index, i32), value)


@dataclass(frozen=True)
class LoopTargets:
    """Represent a loop by the IR frames that its `break` and its `continue` leave.

    Attributes:
        break_to: Frame that `break` leaves.
        continue_to: Frame that `continue` leaves or goes on with; None in a parallel loop.
        unrolled: True if the loop is a copy of an unrolled body.
    """

    break_to: int = 0
    continue_to: int | None = None
    unrolled: bool = False


@dataclass
class FunctionScope:
    """Represent one function being lowered, the kernel or an inlined one: its names in scope and open loops.

    Attributes:
        scopes: Meanings of names, outermost block first.
        loops: The loops around the current statement, outermost first.
        results: Locals that each `return` sets.
        return_frame: Frame that `return` leaves.
        returned: Operands and types of each `return` while a function is measured, else None.
    """

    scopes: list[dict[str, Any]]
    loops: list[LoopTargets] = field(default_factory=list)
    results: tuple[LocalSlot, ...] = ()
    return_frame: int = 0
    returned: list[tuple[tuple[ModelOperand, ...], tuple[Scalar, ...]]] | None = None


class Lowerer:
    """Represent the lowering of one program to IR: the open block, the bound names, the depth of nesting.

    If in_memory is True, vectors declared inside loops are local arrays instead of a scalar for each entry; long
    vectors are local arrays in any case. A local that is declared with zero gets no store, because a declaration
    already stores zero; the frontend emits the store all the same.
    """

    def __init__(self, program: m.Program, in_memory: bool = False) -> None:
        self.program = program
        self.in_memory = in_memory
        self.fields = {f.name: f for f in program.fields}
        # In reverse order the first member of a field of structs wins.
        self.roots = {f.owner: f for f in reversed(program.fields)}
        self.views = {v.name: (f, v) for f in program.fields for v in f.views}
        self.functions = {f.name: f for f in program.kernel.functions}
        self.arguments = {p.name: p for p in program.arguments}
        self.builder = Builder()
        self.tasks: list[Task] = []
        self.stack = [FunctionScope([{}])]
        self.frames = 0
        self.nesting = 0
        self.names = 0
        self.zeros: set[Value] = set()

    # -- names and blocks -----------------------------------------------------------------------------------

    @property
    def active(self) -> FunctionScope:
        """Return the scope of the kernel or function that is being lowered."""
        return self.stack[-1]

    def find(self, name: str) -> Any:
        """Return the operand or place that a name is bound to at this point, or None if it is unbound."""
        for scope in reversed(self.active.scopes):
            if name in scope:
                return scope[name]
        return None

    def bind(self, name: str, meaning: Any) -> None:
        """Bind a name to an operand or place until the end of the current block."""
        self.active.scopes[-1][name] = meaning

    def unique(self, name: str) -> str:
        """Return a name that no other local of the kernel has."""
        self.names += 1
        return f"{name}_{self.names}"

    def declare(self, name: str, operand: ModelOperand, dtype: Scalar | None = None) -> None:
        """Declare a local of the program: one IR local for each entry of a vector or member of a struct.

        Args:
            name: Name of the local in the program.
            operand: Value with which the local is initialized.
            dtype: Type of the local if it is a scalar; None takes the type of the operand.
        """
        if isinstance(operand, (TensorOperand, StructOperand)):
            self.bind(name, self._place(name, operand))
        else:
            self.bind(name, self._local(name, self.value(operand, dtype)))

    def _place(self, name: str, operand: ModelOperand) -> Any:
        """Emit new locals, or a new local array, initialized with an operand, and return them."""
        if isinstance(operand, StructOperand):
            items = operand.items.items()
            return StructOperand(operand.struct, {part: self._place(f"{name}_{part}", item) for part, item in items})
        if not isinstance(operand, TensorOperand):
            return self._local(name, self.value(operand))
        values = [self.value(x) for x in operand.items]
        alike = len({v.type for v in values}) == 1
        # A local array is memory of one iteration, so a vector at the top of the kernel is held in scalars.
        wanted = self.nesting and (self.in_memory or len(values) > FEW)
        cells = self._cells(name, values) if wanted and alike else ()
        return TensorOperand(operand.shape, cells or tuple(self._local(name, v) for v in values))

    def _cells(self, name: str, values: list[Value]) -> tuple[LocalArraySlot, ...]:
        array = self.unique(name)
        self.builder.emit(n.LocalArray(array, values[0].type, len(values)))
        cells = tuple(LocalArraySlot(array, v.type, k) for k, v in enumerate(values))
        for cell, value in zip(cells, values):
            if value not in self.zeros:
                cell.write(self.builder, value)
        return cells

    def _local(self, name: str, value: Value) -> LocalSlot:
        first = None if value in self.zeros else value
        return LocalSlot(self.builder.local(self.unique(name), value.type, first), value.type)

    @contextmanager
    def block(self, frames: int = 0) -> Iterator[list[Stmt]]:
        """Open a block of statements with a scope of its own for names, and yield the list of its statements.

        Args:
            frames: Number of frames of the IR that the block adds.
        """
        self.nesting += 1
        self.frames += frames
        self.active.scopes.append({})
        try:
            with self.builder.block() as body:
                yield body
        finally:
            self.active.scopes.pop()
            self.frames -= frames
            self.nesting -= 1

    def leave(self, frame: int) -> None:
        """Emit a jump out of all open frames up to and including the given one."""
        self.builder.emit(n.Break(self.frames - frame + 1))

    def flush(self) -> None:
        """Add a serial task for the statements emitted since the last task, if there are any."""
        body = self.builder.take()
        if body:
            self.tasks.append(Task(body))

    # -- operands -------------------------------------------------------------------------------------------

    def type_of(self, operand: ModelOperand) -> Scalar:
        """Return the type of an operand; for a literal, the default type of its kind that can represent it.

        Raises:
            TypeError: The operand is no scalar.
        """
        if isinstance(operand, Value):
            return operand.type
        if isinstance(operand, bool):
            return u1
        if isinstance(operand, float):
            return self.program.default_fp
        if isinstance(operand, int):
            return i32 if -(2**31) <= operand < 2**31 else i64 if operand < 2**63 else u64
        raise TypeError(f"{operand!r} has no scalar type")

    def value(self, operand: ModelOperand, dtype: Scalar | None = None) -> Value:
        """Return an operand as an IR value of a type; a literal becomes a constant of this type."""
        dtype = dtype or self.type_of(operand)
        if isinstance(operand, Value):
            return self.builder.cast(operand, dtype)
        assert isinstance(operand, (bool, int, float))
        made = self.builder.const(_converted(operand, dtype), dtype)
        # Negative zero is not remembered, because a declaration stores positive zero.
        if operand == 0 and copysign(1.0, operand) > 0.0:
            self.zeros.add(made)
        return made

    def truth(self, operand: ModelOperand) -> bool | Value:
        """Return an operand as a condition: a bool for a literal, else a value of type u1."""
        return self.value(operand, u1) if isinstance(operand, Value) else bool(operand)

    def condition(self, operand: ModelOperand) -> Value:
        """Return an operand, used as a condition, as an IR value of type u1."""
        return self.value(self.truth(operand), u1)

    def index(self, operand: ModelOperand) -> Value:
        """Return an operand as an index of type i32 or i64."""
        return self.value(operand, index_type(self.type_of(operand)))

    def indices(self, nodes: tuple[m.Expr, ...]) -> tuple[Value, ...]:
        """Return index expressions as IR values; an index vector is replaced by its entries."""
        return tuple(self.index(leaf) for node in nodes for leaf in leaves(self.expr(node)))

    # -- dispatch -------------------------------------------------------------------------------------------

    def expr(self, node: m.Expr) -> ModelOperand:
        """Emit an expression and return its operand."""
        return EXPRESSIONS[type(node)](self, node)

    def run(self, body: m.StmtBlock) -> None:
        """Emit the statements of a block in order, up to the first `break`, `continue` or `return`."""
        for stmt in body:
            STATEMENTS[type(stmt)](self, stmt)
            if isinstance(stmt, (m.Break, m.Continue, m.Return)):
                return


Evaluation = Callable[[Lowerer, Any], ModelOperand]
Execution = Callable[[Lowerer, Any], None]
EXPRESSIONS: Table[type[m.Expr], Evaluation] = Table(
    "model lowering of expressions",
    m.EXPRESSIONS,
    about="how the lowering of the harness emits an expression of the model",
)
STATEMENTS: Table[type[m.Stmt], Execution] = Table(
    "model lowering of statements", m.STATEMENTS, about="how the lowering of the harness emits a statement of the model"
)


def index_type(dtype: Scalar) -> Scalar:
    """Return the type of an index or bound: i32, or i64 where i32 could lose values."""
    return i64 if dtype.bits == 64 or dtype.name == "u32" else i32


def common_type(a: Scalar, b: Scalar) -> Scalar:
    """Return the type of an expression that results in one of two operands, of types a and b."""
    return u1 if a.is_bool and b.is_bool else promote(a, b)


def _converted(value: bool | int | float, dtype: Scalar) -> bool | int | float:
    """Convert a literal to a constant of a type: a real becomes an integer by truncation and saturation.

    A real becomes an integer by rounding toward zero, saturates at the ends of the type's range, and NaN becomes 0.
    """
    if not isinstance(value, float) or not dtype.is_int:
        return value
    if value != value:
        return 0
    low, high = dtype.limits
    return int(min(max(value, float(low)), float(high))) if low < value < high else low if value <= low else high
