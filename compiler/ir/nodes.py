"""This module defines the statements of the IR: one frozen dataclass for each.

Nodes are immutable plain data without behavior. Several blocks may share one node, so a pass marks occurrences, never
nodes.
"""

from __future__ import annotations

from .block_nodes import Collective as Collective
from .block_nodes import SharedArray as SharedArray
from .block_nodes import Sync as Sync
from .block_nodes import UpdateElement as UpdateElement
from .statement import Block, Stmt, Value, block, field_roles, operand, result, statement
from .types import Scalar


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
    """This statement overwrites an array element or a temporary; two iterations that store to one are a race."""

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

    Attributes:
        index: value of the index in each trip.
        begin: first index, evaluated once, as the end is.
        end: exclusive end of the range.
        body: statements of one trip.
        step: constant distance between two indices, not 0.
        descending: True if the same indices are visited in the opposite order.
        stop: name of a u1 local that is tested after each trip; the loop ends if it is true.
        trips: number of trips that ran.
        segment: number of trips between the states that a gradient keeps; 0 if it keeps the values of all trips.
    """

    FORM = "for {index} in {begin} .. {end}<step {step}><descending {descending}>\
<segment {segment}><until {stop}><trips {trips}> {body}"
    index: Value = result()
    begin: Value = operand()
    end: Value = operand()
    body: Block = block()
    step: int = 1
    descending: bool = False
    stop: str | None = None
    trips: Value | None = result(default=None)
    segment: int = 0


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


STATEMENTS: dict[str, type[Stmt]] = {cls.__name__: cls for cls in Stmt.__subclasses__()}
"""Every class of statements, by its name."""

ROLES: dict[type[Stmt], tuple[tuple[str, str], ...]] = {cls: field_roles(cls) for cls in STATEMENTS.values()}
"""Name and role of each field of a statement that has a role, by the class of the statement."""
