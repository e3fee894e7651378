"""The IR: one frozen dataclass per statement, plus values, tasks and kernels.

Nodes are immutable plain data without behaviour and may be shared by several blocks, so a pass marks occurrences,
never nodes. The `FORM` of a statement is its text: printer and parser both read it. The metadata of its fields
(result, operand, block, attribute) drives walking, cloning and checking.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ..errors import Span
from .types import ArrayType, Scalar


class Value:
    """The result of one execution of a statement: an id, unique in its kernel, and a type."""

    __slots__ = ("id", "type")

    def __init__(self, id: int, type: Scalar) -> None:
        self.id = id
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.id == other.id and self.type == other.type

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"%{self.id}: {self.type}"


def _role(role: str, **kwargs: Any) -> Any:
    return field(metadata={"role": role}, **kwargs)


def result(**kwargs: Any) -> Any:
    """A value that the statement defines (None where optional)."""
    return _role("result", **kwargs)


def operand(**kwargs: Any) -> Any:
    """A value, or a tuple of values, that the statement reads."""
    return _role("operand", **kwargs)


def block(**kwargs: Any) -> Any:
    """A nested block: a tuple of statements."""
    return _role("block", **kwargs)


@dataclass(frozen=True)
class Stmt:
    """A statement. `loc` is an index into the kernel's location table; it is outside equality and text."""

    FORM: ClassVar[str] = ""
    loc: int = field(default=0, compare=False, kw_only=True, repr=False)


Block = tuple[Stmt, ...]
STATEMENTS: dict[str, type[Stmt]] = {}
ROLES: dict[type[Stmt], tuple[tuple[str, str], ...]] = {}
S = TypeVar("S", bound=Stmt)


@dataclass_transform(frozen_default=True, field_specifiers=(result, operand, block))
def statement(cls: type[S]) -> type[S]:
    """Freeze the class and enter it in STATEMENTS."""
    made = dataclass(frozen=True)(cls)
    STATEMENTS[made.__name__] = made
    ROLES[made] = tuple((f.name, f.metadata["role"]) for f in fields(made) if "role" in f.metadata)
    return made


# ---- values -------------------------------------------------------------------------------------------------


@statement
class Const(Stmt):
    """A typed constant. NaNs are equal to each other here; zeros of different sign are not."""

    FORM = "{result} = const {value}"
    result: Value = result()
    value: float | int | bool

    def _key(self) -> tuple[Value, str]:
        return self.result, repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@statement
class Arg(Stmt):
    """A scalar argument of the kernel; the same in every thread."""

    FORM = "{result} = arg {name}"
    result: Value = result()
    name: str


@statement
class Shape(Stmt):
    """Extent of an array along an axis, as i32 or i64."""

    FORM = "{result} = shape {array}, {axis}"
    result: Value = result()
    array: str
    axis: int


@statement
class Op(Stmt):
    """A scalar operation of OPS; pure."""

    FORM = "{result} = {op} {args}"
    result: Value = result()
    op: str
    args: tuple[Value, ...] = operand()


@statement
class Cast(Stmt):
    """Numeric conversion. Real to integer truncates and saturates (NaN gives 0); to boolean tests for non-zero."""

    FORM = "{result} = cast {arg}"
    result: Value = result()
    arg: Value = operand()


@statement
class BitCast(Stmt):
    """The same bits under another type of the same width."""

    FORM = "{result} = bit_cast {arg}"
    result: Value = result()
    arg: Value = operand()


@statement
class Random(Stmt):
    """A uniform draw: reals in [0, 1), integers over all bits. Counter-based; see docs/ir.md.

    task: number of the task whose draw it is, where that is not the one it stands in: a gradient replays draws.
    """

    FORM = "{result} = random<task {task}>"
    result: Value = result()
    task: int | None = None


# ---- memory -------------------------------------------------------------------------------------------------


@statement
class Load(Stmt):
    """An element of an array parameter or of a kernel temporary (no indices)."""

    FORM = "{result} = load {array}[{indices}]"
    result: Value = result()
    array: str
    indices: tuple[Value, ...] = operand()


@statement
class Store(Stmt):
    """Overwrites an element. Two iterations of a parallel task that store to one element are a race."""

    FORM = "store {array}[{indices}], {value}"
    array: str
    indices: tuple[Value, ...] = operand()
    value: Value = operand()


@statement
class Atomic(Stmt):
    """Read-modify-write of an element, atomic between iterations; gives the old value. op is one of ATOMIC_OPS.

    expected: of `cas` alone: the element becomes `value` if its bits are those of `expected`, and stays otherwise.
    """

    FORM = "{result} = atomic {op} {array}[{indices}], {value}<expected {expected}>"
    result: Value = result()
    op: str
    array: str
    indices: tuple[Value, ...] = operand()
    value: Value = operand()
    expected: Value | None = operand(default=None)


@statement
class Local(Stmt):
    """Declares a mutable scalar, zero each time this executes. Scope: the rest of the block."""

    FORM = "local {var}: {dtype}"
    var: str
    dtype: Scalar


@statement
class Get(Stmt):
    """The current content of a mutable scalar."""

    FORM = "{result} = get {var}"
    result: Value = result()
    var: str


@statement
class Set(Stmt):
    """Overwrites a mutable scalar."""

    FORM = "set {var}, {value}"
    var: str
    value: Value = operand()


@statement
class LocalArray(Stmt):
    """Declares a mutable array of `size` elements, all zero each time this executes."""

    FORM = "local_array {var}: {dtype}[{size}]"
    var: str
    dtype: Scalar
    size: int


@statement
class GetElement(Stmt):
    """An element of a local array; the index may be dynamic; outside the array traps."""

    FORM = "{result} = get_element {var}[{index}]"
    result: Value = result()
    var: str
    index: Value = operand()


@statement
class SetElement(Stmt):
    """Overwrites an element of a local array; the index may be dynamic; outside the array traps."""

    FORM = "set_element {var}[{index}], {value}"
    var: str
    index: Value = operand()
    value: Value = operand()


# ---- control ------------------------------------------------------------------------------------------------


@statement
class If(Stmt):
    """Executes one of two blocks."""

    FORM = "if {cond} {then}<else {orelse}>"
    cond: Value = operand()
    then: Block = block()
    orelse: Block = block(default=())


@statement
class For(Stmt):
    """Serial loop over begin, begin+step, ... strictly before end (after it, if step < 0).

    `descending` visits the same indices in the opposite order. `stop` names a u1 local that is tested after each
    iteration: true ends the loop. `trips` is the number of iterations that ran; bounds are evaluated once.
    """

    FORM = "for {index} in {begin} .. {end}<step {step}><descending {descending}><until {stop}><trips {trips}> {body}"
    index: Value = result()
    begin: Value = operand()
    end: Value = operand()
    body: Block = block()
    step: int = 1
    descending: bool = False
    stop: str | None = None
    trips: Value | None = result(default=None)


@statement
class While(Stmt):
    """Runs `condition`, leaves if `test` is false, runs `body`, tests `stop` as For does; repeats.

    Values of `condition` are visible in `test` alone. `trips` counts runs of `body`.
    """

    FORM = "while {condition} test {test}<until {stop}><trips {trips}> {body}"
    condition: Block = block()
    test: Value = operand()
    body: Block = block()
    stop: str | None = None
    trips: Value | None = result(default=None)


@statement
class Scope(Stmt):
    """A block that runs once and that `break` may leave: the body of an inlined function with early returns."""

    FORM = "scope {body}"
    body: Block = block()


@statement
class Break(Stmt):
    """Leaves the `depth`-th enclosing frame (loop or scope), innermost 1."""

    FORM = "break {depth}"
    depth: int = 1


@statement
class Continue(Stmt):
    """Goes on with the next iteration of the `depth`-th enclosing frame, which is a loop."""

    FORM = "continue {depth}"
    depth: int = 1


@statement
class Return(Stmt):
    """Ends this iteration of the task; in a serial task also the kernel: later tasks do not run."""

    FORM = "return"


# ---- effects ------------------------------------------------------------------------------------------------


@statement
class Assert(Stmt):
    """Traps with the message if the condition is false. Checked on the reference and under debug."""

    FORM = "assert {cond}, {message}"
    cond: Value = operand()
    message: str


@statement
class Print(Stmt):
    """Prints `template` with the arguments in its places, then a newline; see `texts`."""

    FORM = "print {template} {args}"
    template: str
    args: tuple[Value, ...] = operand()


# ---- adstacks -----------------------------------------------------------------------------------------------


@statement
class StackAlloca(Stmt):
    """Declares an adstack, or empties it when executed again. capacity None: known before the launch.

    `adjoint`: slots hold a primal and an adjoint. `variable` names, for messages, whose history it keeps.
    """

    FORM = "adstack_alloca {stack}: {dtype}<capacity {capacity}><adjoint {adjoint}><of {variable}>"
    stack: str
    dtype: Scalar
    capacity: int | None = None
    adjoint: bool = False
    variable: str | None = None


@statement
class StackPush(Stmt):
    """Appends a slot with this primal and a zero adjoint. At capacity nothing is written: overflow."""

    FORM = "adstack_push {stack}, {value}"
    stack: str
    value: Value = operand()


@statement
class StackPop(Stmt):
    """Drops the top slot. Empty: trap."""

    FORM = "adstack_pop {stack}"
    stack: str


@statement
class StackTop(Stmt):
    """The primal of the top slot. Empty: trap."""

    FORM = "{result} = adstack_load_top {stack}"
    result: Value = result()
    stack: str


@statement
class StackTopAdjoint(Stmt):
    """The adjoint of the top slot. Empty: trap."""

    FORM = "{result} = adstack_load_top_adj {stack}"
    result: Value = result()
    stack: str


@statement
class StackAccumulate(Stmt):
    """Adds to the adjoint of the top slot. Empty: trap."""

    FORM = "adstack_acc_adj {stack}, {value}"
    stack: str
    value: Value = operand()


# ---- kernels ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """A parameter: a scalar argument or an array. `x.grad` is the adjoint array of `x`."""

    name: str
    type: Scalar | ArrayType


@dataclass(frozen=True)
class Temp:
    """A scalar in memory that lives for one launch, zero at its start; accessed like an array of rank 0."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Task:
    """A parallel loop over the box [begin, end), or, with no indices, serial code that runs once.

    `bounds` computes begin and end; its values are visible there alone. A task sees no value or local of another.
    """

    body: Block
    indices: tuple[Value, ...] = ()
    bounds: Block = ()
    begin: tuple[Value, ...] = ()
    end: tuple[Value, ...] = ()
    loc: int = field(default=0, compare=False, repr=False)

    @property
    def is_parallel(self) -> bool:
        return bool(self.indices)


@dataclass(frozen=True)
class Kernel:
    """Tasks run in order; each ends before the next begins. Locations are outside equality and text."""

    name: str
    params: tuple[Param, ...]
    tasks: tuple[Task, ...]
    temps: tuple[Temp, ...] = ()
    locations: tuple[Span | None, ...] = field(default=(None,), compare=False, repr=False)

    def span(self, loc: int) -> Span | None:
        """The source span of a statement's `loc`."""
        return self.locations[loc] if 0 <= loc < len(self.locations) else None

    def array_types(self) -> dict[str, ArrayType]:
        """Every name that Load, Store and Atomic may use, with its type."""
        found = {p.name: p.type for p in self.params if isinstance(p.type, ArrayType)}
        return found | {t.name: ArrayType(t.dtype, 0) for t in self.temps}

    def scalar_types(self) -> dict[str, Scalar]:
        """Every name that Arg may use, with its type."""
        return {p.name: p.type for p in self.params if isinstance(p.type, Scalar)}
