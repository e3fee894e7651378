"""This module contains the tracer: the state shared by all functions that translate the syntax of a kernel to IR.

The tracer owns the builder, the names, the captured arrays, the locations and the list of mistakes. Handlers of
expressions and statements live in tables that the other modules fill. A mistake ends only the innermost expression.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Span
from ..ir.build import Builder
from ..ir.depth import EXPRESSIONS as DEEPEST
from ..ir.depth import NESTING
from ..ir.kernels import Task
from ..ir.statement import Stmt, Value
from ..ir.table import Table
from ..ir.types import Scalar, i32, u1
from . import type_inference
from .activation import Activation, ElifChain
from .captures import CapturedFields
from .diagnostics import (
    Diagnostics,
    PoisonError,
    ProblemError,
    index_problem,
    syntax_problem,
    type_problem,
    unsupported_problem,
)
from .operands import (
    POISON,
    MatrixValue,
    Operand,
    Pack,
    Poison,
    ShapeOf,
    Static,
    StructValue,
    describe,
    integer_of,
    number_of,
    static_operand,
)
from .protocols import extent_source, extents_type, measured_hint
from .reads import Read
from .scope import FixedName, Namer, Scopes
from .type_inference import FrontendOptions

if TYPE_CHECKING:
    from .returns import KernelResults


@dataclass
class BlockUse:
    """Represent what the body of a parallel loop asks of blocks.

    Attributes:
        size: number of iterations of a block.
        is_used: True if the body uses blocks.
    """

    size: object = None
    is_used: bool = False


class Tracer:
    """This class holds the state of the translation of one Python function to a kernel of the IR.

    `frames` counts the loops and scopes of the IR that are open in the current task, `nesting` the blocks of the IR
    around the current statement (at 0 a loop is a parallel task), `expressions` the expressions being evaluated.
    `chain` is the `ElifChain` to which the `if` that is traced next belongs, or None. `block_dim` is the block size
    that the program gives the next outermost loop, `block_use` what the current one asks of blocks.
    """

    def __init__(self, options: FrontendOptions) -> None:
        self.options = options
        self.builder = Builder()
        self.namer = Namer()
        self.captures = CapturedFields(self.namer)
        self.diagnostics = Diagnostics()
        self.locations: dict[Span | None, int] = {None: 0}
        self.tasks: list[Task] = []
        self.activations: list[Activation] = []
        self.poisoned: set[tuple[FunctionType, str]] = set()
        self.told: set[tuple[FunctionType, str]] = set()
        self.frames = 0
        self.nesting = self.expressions = 0
        self.chain: ElifChain | None = None
        self.in_parallel = False
        self.serialize_next = False
        self.segment_next = 0
        self.block_dim: object = None
        self.block_use = BlockUse()
        self.results: KernelResults | None = None
        self.reads: list[Read] = []

    # -- places ---------------------------------------------------------------------------------------------

    @property
    def active(self) -> Activation:
        """Return the `Activation` of the function that is being traced."""
        return self.activations[-1]

    @property
    def scopes(self) -> Scopes:
        """Return the name scopes of the function that is being traced."""
        return self.active.scopes

    def locate(self, node: ast.AST) -> int:
        """Return the index in the kernel's table of source locations that belongs to a syntax node."""
        return self.locations.setdefault(self.active.source.span(node), len(self.locations))

    def report(self, problem: ProblemError, node: ast.AST) -> None:
        """Record a mistake as an error at its syntax node, or at `node` if the mistake has no node of its own."""
        span = self.active.source.span(problem.node or node)
        call = self.active.call_span
        name = self.active.function.__name__
        context = f" (in `{name}`, called at {call.file}:{call.line})" if call else ""
        self.diagnostics.error(problem, span, context)

    def warn(self, reason: str, cure: str, node: ast.AST | None = None) -> None:
        """Record a warning at the syntax node, or at the statement that is being traced if no node is given."""
        span = self.active.source.span(node) if node is not None else list(self.locations)[self.builder.loc]
        assert span is not None
        self.diagnostics.warn(reason, cure, span)

    # -- blocks ---------------------------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Open a block of IR statements and a block of names; a `stop_grad` of fields ends at the end of the block."""
        if self.nesting >= NESTING:
            raise unsupported_problem(
                f"blocks nest more than {NESTING} deep, functions that are called included",
                "put a part into a kernel of its own",
            )
        self.nesting += 1
        active, stopped = self.active, self.active.stopped
        try:
            with self.builder.block() as body, self.scopes.inner():
                yield body
        finally:
            self.nesting -= 1
            active.stopped = stopped

    @contextmanager
    def frame(self, count: int = 1) -> Iterator[int]:
        """Count `count` more nested loops or scopes of the IR during the `with`, and yield the new nesting depth."""
        self.frames += count
        try:
            yield self.frames
        finally:
            self.frames -= count

    def depth(self, frame: int) -> int:
        """Return the depth of loop or scope number `frame`, counted from the innermost one, which has depth 1."""
        return self.frames - frame + 1

    def splice(self, body: list[Stmt]) -> None:
        """Append statements that were built in a separate list to the innermost open block."""
        for stmt in body:
            self.builder.emit(stmt)

    # -- dispatch -------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Operand:
        """Return the operand of an expression; if it contains a mistake, report this and return a `Poison`."""
        return self.evaluate(node, EXPRESSIONS.get(type(node)))

    def evaluate(self, node: ast.expr, handler: Handler | None) -> Operand:
        """Evaluate an expression with a handler; emitted statements get the location of the expression."""
        outer = self.builder.loc
        self.builder.loc = self.locate(node)
        self.expressions += 1
        try:
            if self.expressions > DEEPEST:
                raise unsupported_problem(
                    f"expressions nest more than {DEEPEST} deep, functions that are called included",
                    "give a part a name, as in `a = ...`",
                )
            if handler is None:
                raise syntax_problem(f"`{type(node).__name__}` is not part of the kernel language", "write it without")
            return handler(self, node)
        except ProblemError as problem:
            self.report(problem, node)
        except PoisonError:
            pass
        finally:
            self.builder.loc = outer
            self.expressions -= 1
        return POISON

    def clean(self, node: ast.expr) -> Known:
        """Return the operand of an expression; raise PoisonError if a mistake in the expression was reported."""
        return require_value(self.expr(node))

    def run(self, body: list[ast.stmt]) -> bool:
        """Trace statements in order, up to one after which control cannot continue; return True if there is one."""
        return any(self.statement(stmt) for stmt in body)

    def statement(self, node: ast.stmt) -> bool:
        """Trace a statement, and return True if control never reaches the next statement, as after `return`."""
        outer = self.builder.loc
        self.builder.loc = self.locate(node)
        try:
            handler = STATEMENTS.get(type(node))
            if handler is None:
                raise syntax_problem(f"`{type(node).__name__}` is not part of the kernel language", "write it without")
            return bool(handler(self, node))
        except ProblemError as problem:
            self.report(problem, node)
        except PoisonError:
            pass
        finally:
            self.builder.loc = outer
        self.poison_targets(node)
        return False

    def poison_targets(self, node: ast.AST) -> None:
        """Bind to `Poison` the names that a faulty statement would have assigned, so that no later use is reported."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and not self.scopes.find(inner.id):
                self.poison(inner.id, inner.lineno)

    def poison(self, name: str, line: int) -> None:
        """Bind a name to `Poison`, the operand whose use causes no further error message."""
        self.scopes.declare(name, FixedName(POISON, "faulty"), line)

    # -- operands -------------------------------------------------------------------------------------------

    def type_of(self, operand: Operand) -> Scalar:
        """Return the scalar type of a value or number."""
        if isinstance(operand, Value):
            return operand.type
        found = number_of(require_value(operand))
        if found is None:
            raise type_inference.not_numeric(operand)
        return type_inference.literal_type(found, self.options)

    def value(self, operand: Operand, dtype: Scalar | None = None) -> Value:
        """Return the operand as an IR value, converted to `dtype` if given; a number becomes one constant."""
        if isinstance(operand, Value):
            return self.builder.cast(operand, dtype or operand.type)
        own = self.type_of(operand)
        found = number_of(operand)
        assert found is not None
        return self.builder.const(convert_number(found, dtype or own), dtype or own)

    def stored(self, operand: Operand, dtype: Scalar, where: str) -> Value:
        """Return the operand converted to the type of its memory. Warn if a fraction is lost or an integer wraps."""
        source, found = self.type_of(operand), number_of(operand)
        whole = isinstance(found, float) and found.is_integer()
        if source.is_real and dtype.is_int and not whole:
            self.warn(
                f"a real value ({source}) is stored to {where} of type {dtype}: its fraction is lost",
                f"write `int(...)` if that is meant, or make {where} real",
            )
        if isinstance(found, int) and dtype.is_int and not type_inference.fits(found, dtype):
            self.warn(f"{found} does not fit {where} of type {dtype}: it wraps", "use a wider type")
        return self.value(operand, dtype)

    def condition(self, operand: Operand) -> Value:
        """Return the operand as a boolean (u1) value of the IR; integers become True if they are not zero."""
        if isinstance(operand, (MatrixValue, StructValue)):
            raise type_problem(
                f"a condition is one boolean, not {describe(operand)}",
                "reduce it, as in `(v == w).all()` or `(v > 0).any()`",
            )
        dtype = self.type_of(operand)
        type_inference.check_condition(dtype)
        found = number_of(operand)
        return self.value(operand if found is None else Static(bool(found)), None if dtype.is_bool else u1)

    def truth(self, operand: Operand) -> Static | Value:
        """Return the operand as a condition: a Python boolean if it is known at compile time, else a u1 value."""
        found = number_of(operand)
        if found is None:
            return self.condition(operand)
        type_inference.check_condition(self.type_of(operand))
        return Static(bool(found))

    def index(self, operand: Operand) -> Value:
        """Return the operand as an index of type i32 or i64."""
        if isinstance(operand, Static) and operand.value is None:
            raise type_problem("`None` indexes a 0-d field alone", "give one integer per axis")
        dtype = self.type_of(operand)
        type_inference.check_index(dtype)
        found = integer_of(operand)
        if found is not None and found < 0:
            raise index_problem(f"the index {found} is negative; indices do not count from the end", "write `n - 1`")
        return self.value(operand, type_inference.index_type(dtype))

    def within(self, index: Value, extent: int | Value, message: str) -> Value:
        """Emit a check that the index is from 0 to `extent` - 1, if the option `bounds` is on; return the index."""
        if not self.options.bounds:
            return index
        limit = extent if isinstance(extent, Value) else self.builder.const(extent, i32)
        return self.builder.within(index, limit, message)

    def items(self, operand: Operand) -> tuple[Operand, ...] | None:
        """Return the items of a tuple, vector or matrix, or None if the operand is no sequence of known length."""
        if isinstance(operand, Pack):
            return operand.items
        if isinstance(operand, MatrixValue):
            return rows(operand)
        if not isinstance(operand, Static):
            return None
        if isinstance(operand.value, ShapeOf):
            return tuple(self.extent(operand.value, axis) for axis in range(len(operand.value.field.shape)))
        if isinstance(operand.value, (tuple, list, np.ndarray)):
            return tuple(_element(operand, i) for i in range(len(operand.value)))
        return None

    def extent(self, shape: ShapeOf, axis: int) -> Value:
        """Emit a read of an array's extent and return it as i32, or as i64 if 32 bits are too few for the array."""
        storage, at = extent_source(shape.field, axis)
        name = self.captures.array(storage, measured_hint(shape.field, shape.hint))
        return self.builder.shape(name, at, extents_type(storage))


Known = Value | Static | Pack | MatrixValue | StructValue


def require_value(operand: Operand) -> Known:
    """Return the operand, or raise PoisonError if the operand is a `Poison`."""
    if isinstance(operand, Poison):
        raise PoisonError
    return operand


def rows(matrix: MatrixValue) -> tuple[Operand, ...]:
    """Return the entries of a vector, or the rows of a matrix."""
    if len(matrix.shape) == 1:
        return matrix.items
    width = matrix.shape[1]
    return tuple(MatrixValue((width,), matrix.items[i : i + width]) for i in range(0, len(matrix.items), width))


def convert_number(value: bool | int | float, dtype: Scalar) -> bool | int | float:
    """Return a Python number cast as the IR casts: reals saturate in integers, and NaN gives 0."""
    if not isinstance(value, float) or not dtype.is_int:
        return value
    if value != value:
        return 0
    low, high = dtype.limits
    return low if value <= low else high if value >= high else int(value)


def _element(operand: Static, index: int) -> Operand:
    return static_operand(operand.value[index], f"{operand.hint}_{index}" if operand.hint else "")


Handler = Callable[[Tracer, Any], Operand]
EXPRESSIONS: Table[type[ast.expr], Handler] = Table("expressions", ast.expr.__subclasses__(), about="how it becomes IR")
STATEMENTS: Table[type[ast.stmt], Callable[[Tracer, Any], bool | None]] = Table(
    "frontend statements", ast.stmt.__subclasses__(), about="how it becomes IR"
)
