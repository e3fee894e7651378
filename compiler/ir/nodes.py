"""This module defines the IR: one frozen dataclass per statement, and classes for values, tasks and kernels.

Nodes are immutable plain data without behavior. Several blocks may share one node, so a pass marks occurrences, never
nodes. The `FORM` of a statement is its text: printer and parser both read it. The metadata of its fields (result,
operand, block, attribute) drives walking, cloning and checking.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ..errors import Span
from .types import ArrayType, Scalar


class Value:
    """A value is the result of one execution of a statement: an id, unique in its kernel, and a type."""

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
    """Declare a dataclass attribute for the value that a statement defines; None marks an optional one."""
    return _role("result", **kwargs)


def operand(**kwargs: Any) -> Any:
    """Declare a dataclass attribute for a value, or a tuple of values, that a statement reads."""
    return _role("operand", **kwargs)


def block(**kwargs: Any) -> Any:
    """Declare a dataclass attribute for a nested block of a statement."""
    return _role("block", **kwargs)


@dataclass(frozen=True)
class Stmt:
    """This class is the base of all statements of the IR.

    Attributes:
        FORM: text of the statement with placeholders for its fields; see `form`.
        loc: index into the kernel's location table; it counts neither for equality nor for the text.
    """

    FORM: ClassVar[str] = ""
    loc: int = field(default=0, compare=False, kw_only=True, repr=False)


Block = tuple[Stmt, ...]
STATEMENTS: dict[str, type[Stmt]] = {}
ROLES: dict[type[Stmt], tuple[tuple[str, str], ...]] = {}
S = TypeVar("S", bound=Stmt)


@dataclass_transform(frozen_default=True, field_specifiers=(result, operand, block))
def statement(cls: type[S]) -> type[S]:
    """Freeze the class, enter it in `STATEMENTS` and `ROLES`, and return it."""
    made = dataclass(frozen=True)(cls)
    STATEMENTS[made.__name__] = made
    ROLES[made] = tuple((f.name, f.metadata["role"]) for f in fields(made) if "role" in f.metadata)
    return made


# ---- values -------------------------------------------------------------------------------------------------


@statement
class Const(Stmt):
    """This statement results in a typed constant. All NaNs are equal here; zeros of different sign are not equal."""

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
    """This statement results in a scalar argument of the kernel, which is the same in every thread."""

    FORM = "{result} = arg {name}"
    result: Value = result()
    name: str


@statement
class Shape(Stmt):
    """This statement results in the extent of an array along an axis, as i32 or i64."""

    FORM = "{result} = shape {array}, {axis}"
    result: Value = result()
    array: str
    axis: int


@statement
class Op(Stmt):
    """This statement computes a scalar operation of the table `OPS`; it has no side effects."""

    FORM = "{result} = {op} {args}"
    result: Value = result()
    op: str
    args: tuple[Value, ...] = operand()


@statement
class Cast(Stmt):
    """This statement converts a number to another type.

    A real converted to an integer is truncated and saturates (NaN gives 0). A number converted to a boolean is True if
    it is not zero.
    """

    FORM = "{result} = cast {arg}"
    result: Value = result()
    arg: Value = operand()


@statement
class BitCast(Stmt):
    """This statement results in the bits of its operand as a value of another type of the same width."""

    FORM = "{result} = bit_cast {arg}"
    result: Value = result()
    arg: Value = operand()


@statement
class Within(Stmt):
    """This statement results in its index; it ends the launch if the index is not in 0 .. `extent` - 1."""

    FORM = "{result} = within {index}, {extent}, {message}"
    result: Value = result()
    index: Value = operand()
    extent: Value = operand()
    message: str


@statement
class Random(Stmt):
    """This statement draws a random number: a real uniformly from [0, 1), an integer uniformly over all bits.

    Draws are counter-based; see docs/ir.md.

    Attributes:
        result: the random number.
        task: number of the task whose draw is replayed, as in a gradient; None for a draw of the task around it.
    """

    FORM = "{result} = random<task {task}>"
    result: Value = result()
    task: int | None = None


# ---- memory -------------------------------------------------------------------------------------------------


@statement
class Load(Stmt):
    """This statement reads an element of an array parameter, or a temporary of the kernel (no indices)."""

    FORM = "{result} = load {array}[{indices}]"
    result: Value = result()
    array: str
    indices: tuple[Value, ...] = operand()


@statement
class Store(Stmt):
    """This statement overwrites an element. Two iterations of a parallel task that store to one element are a race."""

    FORM = "store {array}[{indices}], {value}"
    array: str
    indices: tuple[Value, ...] = operand()
    value: Value = operand()


@statement
class Atomic(Stmt):
    """This statement updates an element atomically with respect to other iterations and results in the old value.

    Attributes:
        result: value of the element before the update.
        op: one of `ATOMIC_OPS`.
        array: name of an array or temporary.
        indices: index of the element.
        value: right operand of the update.
        expected: for `cas` only: the element becomes `value` if its bits are those of `expected`, and stays otherwise.
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
    """This statement declares a local, set to zero at each execution; its scope is the rest of the block."""

    FORM = "local {var}: {dtype}"
    var: str
    dtype: Scalar


@statement
class Get(Stmt):
    """This statement reads the current value of a local, a mutable scalar."""

    FORM = "{result} = get {var}"
    result: Value = result()
    var: str


@statement
class Set(Stmt):
    """This statement overwrites a local, a mutable scalar."""

    FORM = "set {var}, {value}"
    var: str
    value: Value = operand()


@statement
class LocalArray(Stmt):
    """This statement declares a mutable array of `size` elements, all zero each time it executes."""

    FORM = "local_array {var}: {dtype}[{size}]"
    var: str
    dtype: Scalar
    size: int


@statement
class GetElement(Stmt):
    """This statement reads an element of a local array. The index may be dynamic; one outside the array traps."""

    FORM = "{result} = get_element {var}[{index}]"
    result: Value = result()
    var: str
    index: Value = operand()


@statement
class SetElement(Stmt):
    """This statement overwrites an element of a local array. The index may be dynamic; one outside the array traps."""

    FORM = "set_element {var}[{index}], {value}"
    var: str
    index: Value = operand()
    value: Value = operand()


# ---- control ------------------------------------------------------------------------------------------------


@statement
class If(Stmt):
    """This statement executes one of two blocks: `then` if its condition is true, else `orelse`."""

    FORM = "if {cond} {then}<else {orelse}>"
    cond: Value = operand()
    then: Block = block()
    orelse: Block = block(default=())


@statement
class For(Stmt):
    """This serial loop visits begin, begin+step, ... strictly before end (strictly after end, if step < 0).

    The bounds are evaluated once.

    Attributes:
        index: value of the index in each trip.
        begin: first index.
        end: exclusive end of the range.
        body: statements of one trip.
        step: constant distance between two indices, not 0.
        descending: True if the same indices are visited in the opposite order.
        stop: name of a u1 local that is tested after each trip; the loop ends if it is true.
        trips: number of trips that ran.
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
    """This loop evaluates `condition`, ends if `test` is false, runs `body`, ends if `stop` is set, and repeats.

    Attributes:
        condition: statements that compute `test`; their values are visible in `test` only.
        test: u1 value; the loop continues if it is true.
        body: statements of one trip.
        stop: name of a u1 local that is tested after each trip; the loop ends if it is true.
        trips: number of runs of `body`.
    """

    FORM = "while {condition} test {test}<until {stop}><trips {trips}> {body}"
    condition: Block = block()
    test: Value = operand()
    body: Block = block()
    stop: str | None = None
    trips: Value | None = result(default=None)


@statement
class Scope(Stmt):
    """This block runs once and `break` may leave it: it is the body of an inlined function with early returns."""

    FORM = "scope {body}"
    body: Block = block()


@statement
class Break(Stmt):
    """This statement leaves the `depth`-th enclosing frame (loop or scope); the innermost frame has depth 1."""

    FORM = "break {depth}"
    depth: int = 1


@statement
class Continue(Stmt):
    """This statement starts the next trip of the `depth`-th enclosing frame, which must be a loop."""

    FORM = "continue {depth}"
    depth: int = 1


@statement
class Return(Stmt):
    """This statement ends the iteration of the task; in a serial task it ends the kernel: later tasks do not run."""

    FORM = "return"


# ---- effects ------------------------------------------------------------------------------------------------


@statement
class Assert(Stmt):
    """This statement traps with a message if its condition is false. Only the reference and debug builds check it."""

    FORM = "assert {cond}, {message}"
    cond: Value = operand()
    message: str


@statement
class Print(Stmt):
    """This statement prints the text `template` with its arguments in the placeholders, and then a newline."""

    FORM = "print {template} {args}"
    template: str
    args: tuple[Value, ...] = operand()


# ---- adstacks -----------------------------------------------------------------------------------------------


@statement
class StackAlloca(Stmt):
    """This statement declares an adstack, or empties it when it executes again.

    Attributes:
        stack: name of the adstack.
        dtype: type of the primals.
        capacity: number of slots; None if the number is found before the launch.
        adjoint: True if each slot holds a primal and an adjoint.
        variable: name, for messages, of the variable whose history the adstack keeps.
    """

    FORM = "adstack_alloca {stack}: {dtype}<capacity {capacity}><adjoint {adjoint}><of {variable}>"
    stack: str
    dtype: Scalar
    capacity: int | None = None
    adjoint: bool = False
    variable: str | None = None


@statement
class StackPush(Stmt):
    """This statement pushes a primal with a zero adjoint to an adstack. A full adstack stays unchanged (overflow)."""

    FORM = "adstack_push {stack}, {value}"
    stack: str
    value: Value = operand()


@statement
class StackPop(Stmt):
    """This statement drops the top slot; it traps if the adstack is empty."""

    FORM = "adstack_pop {stack}"
    stack: str


@statement
class StackTop(Stmt):
    """This statement reads the primal of the top slot; it traps if the adstack is empty."""

    FORM = "{result} = adstack_load_top {stack}"
    result: Value = result()
    stack: str


@statement
class StackTopAdjoint(Stmt):
    """This statement reads the adjoint of the top slot; it traps if the adstack is empty."""

    FORM = "{result} = adstack_load_top_adj {stack}"
    result: Value = result()
    stack: str


@statement
class StackAccumulate(Stmt):
    """This statement adds a value to the adjoint of the top slot; it traps if the adstack is empty."""

    FORM = "adstack_acc_adj {stack}, {value}"
    stack: str
    value: Value = operand()


# ---- kernels ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel is a scalar argument or an array. `x.grad` is the adjoint array of `x`."""

    name: str
    type: Scalar | ArrayType


@dataclass(frozen=True)
class Temp:
    """A temporary is a scalar in memory that lives for one launch and starts at zero; its array rank is 0."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Task:
    """A task is a parallel loop over the box [begin, end) or, without indices, serial code that runs once.

    A task sees no value and no local of another task.

    Attributes:
        body: statements of one iteration.
        indices: index values, one for each axis of the box.
        bounds: statements that compute `begin` and `end`; their values are visible there only.
        begin: first index of each axis.
        end: exclusive end of each axis.
        loc: index into the kernel's location table.
    """

    body: Block
    indices: tuple[Value, ...] = ()
    bounds: Block = ()
    begin: tuple[Value, ...] = ()
    end: tuple[Value, ...] = ()
    loc: int = field(default=0, compare=False, repr=False)

    @property
    def is_parallel(self) -> bool:
        """Return True if the task is a parallel loop."""
        return bool(self.indices)


@dataclass(frozen=True)
class Kernel:
    """A kernel is a sequence of tasks that run in order; each task ends before the next begins.

    Attributes:
        name: name of the kernel.
        params: scalar and array parameters.
        tasks: tasks in the order in which they run.
        temps: temporaries, which carry values between tasks.
        locations: source spans that statements refer to by `loc`; they count neither for equality nor for the text.
    """

    name: str
    params: tuple[Param, ...]
    tasks: tuple[Task, ...]
    temps: tuple[Temp, ...] = ()
    locations: tuple[Span | None, ...] = field(default=(None,), compare=False, repr=False)

    def span(self, loc: int) -> Span | None:
        """Return the source span of a statement's `loc`, or None if it is not known."""
        return self.locations[loc] if 0 <= loc < len(self.locations) else None

    def array_types(self) -> dict[str, ArrayType]:
        """Return the types of all arrays and temporaries, by the names that `Load`, `Store` and `Atomic` use."""
        found = {p.name: p.type for p in self.params if isinstance(p.type, ArrayType)}
        return found | {t.name: ArrayType(t.dtype, 0) for t in self.temps}

    def scalar_types(self) -> dict[str, Scalar]:
        """Return the types of all scalar parameters, by the names that `Arg` uses."""
        return {p.name: p.type for p in self.params if isinstance(p.type, Scalar)}
