"""From a program to a kernel of stage `source`, without the frontend: a second opinion on what a program means.

This module holds what all rows share: names, frames, conversions. A number of the text stays a Python number until it
meets a type. Short circuits and choices always branch here; the frontend may compute both sides, to the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import copysign
from typing import Any

from ...compiler.ir import nodes as n
from ...compiler.ir.build import Builder
from ...compiler.ir.nodes import Task, Value
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar, i32, i64, promote, u1, u64
from . import nodes as m
from .tensors import Bundle, Tensor, leaves

FEW = 8
"""Entries up to which a vector may be scalars: one that is indexed at launch takes a branch for each."""

Operand = Value | bool | int | float | tuple[Any, ...] | Tensor | Bundle
"""A value, a number of the text, several of them (what `frexp` and some functions give), a vector, matrix or struct."""


@dataclass(frozen=True)
class Local:
    """A mutable scalar of the IR."""

    var: str
    dtype: Scalar


@dataclass(frozen=True)
class Cell:
    """An element of a local array of the IR."""

    var: str
    dtype: Scalar
    index: int

    def read(self, b: Builder) -> Value:
        return b.get_element(self.var, b.const(self.index, i32), self.dtype)

    def write(self, b: Builder, value: Value) -> None:
        b.set_element(self.var, b.const(self.index, i32), value)


@dataclass(frozen=True)
class Loop:
    """Where `break` and `continue` go: frames of the IR; continue_to None: a parallel loop."""

    break_to: int = 0
    continue_to: int | None = None
    unrolled: bool = False


@dataclass
class Activation:
    """The kernel, or a function while it is inlined. returned: operands and types of each `return`, while measuring."""

    scopes: list[dict[str, Any]]
    loops: list[Loop] = field(default_factory=list)
    results: tuple[Local, ...] = ()
    return_frame: int = 0
    returned: list[tuple[tuple[Operand, ...], tuple[Scalar, ...]]] | None = None


class Lowerer:
    """State of one lowering: the open block, what names mean, how deep control is nested.

    in_memory: vectors declared inside loops are local arrays, not a scalar for each entry; long ones are in any case.
    Declared with zero, a local gets no store, since a declaration is one: the frontend stores it all the same.
    """

    def __init__(self, program: m.Program, in_memory: bool = False) -> None:
        self.program = program
        self.in_memory = in_memory
        self.fields = {f.name: f for f in program.fields}
        self.roots = {f.owner: f for f in reversed(program.fields)}
        self.views = {v.name: (f, v) for f in program.fields for v in f.views}
        self.functions = {f.name: f for f in program.kernel.functions}
        self.arguments = {p.name: p for p in program.arguments}
        self.builder = Builder()
        self.tasks: list[Task] = []
        self.stack = [Activation([{}])]
        self.frames = 0
        self.nesting = 0
        self.names = 0
        self.zeros: set[Value] = set()

    # -- names and blocks -----------------------------------------------------------------------------------

    @property
    def active(self) -> Activation:
        """What is being lowered."""
        return self.stack[-1]

    def find(self, name: str) -> Any:
        """What a name means here: a Local, a tensor of these, an operand, or None."""
        for scope in reversed(self.active.scopes):
            if name in scope:
                return scope[name]
        return None

    def bind(self, name: str, meaning: Any) -> None:
        """Give a name a meaning until the end of this block."""
        self.active.scopes[-1][name] = meaning

    def unique(self, name: str) -> str:
        """A name that no other local of the kernel has."""
        self.names += 1
        return f"{name}_{self.names}"

    def declare(self, name: str, operand: Operand, dtype: Scalar | None = None) -> None:
        """A new local of the program; a vector is one for each entry, a struct one for each member."""
        if isinstance(operand, (Tensor, Bundle)):
            self.bind(name, self._place(name, operand))
        else:
            self.bind(name, self._local(name, self.value(operand, dtype)))

    def _place(self, name: str, operand: Operand) -> Any:
        if isinstance(operand, Bundle):
            items = operand.items.items()
            return Bundle(operand.struct, {part: self._place(f"{name}_{part}", item) for part, item in items})
        if not isinstance(operand, Tensor):
            return self._local(name, self.value(operand))
        values = [self.value(x) for x in operand.items]
        alike = len({v.type for v in values}) == 1
        wanted = self.nesting and (self.in_memory or len(values) > FEW)
        cells = self._cells(name, values) if wanted and alike else ()
        return Tensor(operand.shape, cells or tuple(self._local(name, v) for v in values))

    def _cells(self, name: str, values: list[Value]) -> tuple[Cell, ...]:
        array = self.unique(name)
        self.builder.emit(n.LocalArray(array, values[0].type, len(values)))
        cells = tuple(Cell(array, v.type, k) for k, v in enumerate(values))
        for cell, value in zip(cells, values):
            if value not in self.zeros:
                cell.write(self.builder, value)
        return cells

    def _local(self, name: str, value: Value) -> Local:
        first = None if value in self.zeros else value
        return Local(self.builder.local(self.unique(name), value.type, first), value.type)

    @contextmanager
    def block(self, frames: int = 0) -> Iterator[list[n.Stmt]]:
        """A block of statements and of names, inside so many new frames."""
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
        """Go on after a frame."""
        self.builder.emit(n.Break(self.frames - frame + 1))

    def flush(self) -> None:
        """What was emitted outside all loops becomes a serial task."""
        body = self.builder.take()
        if body:
            self.tasks.append(Task(body))

    # -- operands -------------------------------------------------------------------------------------------

    def type_of(self, operand: Operand) -> Scalar:
        """The type of a value; of a number on its own, the default of its kind that holds it."""
        if isinstance(operand, Value):
            return operand.type
        if isinstance(operand, bool):
            return u1
        if isinstance(operand, float):
            return self.program.default_fp
        if isinstance(operand, int):
            return i32 if -(2**31) <= operand < 2**31 else i64 if operand < 2**63 else u64
        raise TypeError(f"{operand!r} has no scalar type")

    def value(self, operand: Operand, dtype: Scalar | None = None) -> Value:
        """The operand as a value of a type; a number takes that type directly."""
        dtype = dtype or self.type_of(operand)
        if isinstance(operand, Value):
            return self.builder.cast(operand, dtype)
        assert isinstance(operand, (bool, int, float))
        made = self.builder.const(_converted(operand, dtype), dtype)
        if operand == 0 and copysign(1.0, operand) > 0.0:
            self.zeros.add(made)
        return made

    def truth(self, operand: Operand) -> bool | Value:
        """The operand as a condition; a number of the text is known."""
        return self.value(operand, u1) if isinstance(operand, Value) else bool(operand)

    def condition(self, operand: Operand) -> Value:
        """The operand as a u1 value."""
        return self.value(self.truth(operand), u1)

    def index(self, operand: Operand) -> Value:
        """The operand as an index."""
        return self.value(operand, index_type(self.type_of(operand)))

    def indices(self, nodes: tuple[m.Expr, ...]) -> tuple[Value, ...]:
        """Expressions as indices; an index vector counts as its entries."""
        return tuple(self.index(leaf) for node in nodes for leaf in leaves(self.expr(node)))

    # -- dispatch -------------------------------------------------------------------------------------------

    def expr(self, node: m.Expr) -> Operand:
        """Evaluate an expression."""
        return EXPRESSIONS[type(node)](self, node)

    def run(self, body: m.Block) -> None:
        """Execute statements as far as control goes."""
        for stmt in body:
            STATEMENTS[type(stmt)](self, stmt)
            if isinstance(stmt, (m.Break, m.Continue, m.Return)):
                return


Evaluation = Callable[[Lowerer, Any], Operand]
Execution = Callable[[Lowerer, Any], None]
EXPRESSIONS: Table[type[m.Expr], Evaluation] = Table("model lowering of expressions", m.EXPRESSIONS)
STATEMENTS: Table[type[m.Stmt], Execution] = Table("model lowering of statements", m.STATEMENTS)


def index_type(dtype: Scalar) -> Scalar:
    """Indices and bounds are i32, or i64 where i32 could lose values."""
    return i64 if dtype.bits == 64 or dtype.name == "u32" else i32


def common_type(a: Scalar, b: Scalar) -> Scalar:
    """The type of two alternatives of one value."""
    return u1 if a.is_bool and b.is_bool else promote(a, b)


def _converted(value: bool | int | float, dtype: Scalar) -> bool | int | float:
    """A real number of the text in an integer type: toward zero, within the range, NaN gives 0."""
    if not isinstance(value, float) or not dtype.is_int:
        return value
    if value != value:
        return 0
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = low + (1 << dtype.bits) - 1
    return int(min(max(value, float(low)), float(high))) if low < value < high else low if value <= low else high
