"""This module contains RULES, the table of the verifier's checks for each class of statement.

When a rule runs, the operands of the statement are known to be visible and its results are not yet defined. The module
`verify` calls these rules; it also checks scopes, and which classes are legal at the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Protocol

from . import nodes as n
from .build import normal_constant
from .collectives import COLLECTIVES, SYNCS, WIDTHS
from .nodes import STATEMENTS
from .ops import ATOMIC_OPS, OPS, atomic_fits, result_type
from .statement import Stmt, Value
from .table import Table
from .texts import is_printable, place_formats
from .types import ArrayType, Scalar, adjoint_type, i32, i64, u1


class RuleContext(Protocol):
    """A `RuleContext` gives a verifier rule access to the kernel; looking up a name that is not visible fails.

    Attributes:
        scalars: types of the scalar parameters by name.
        frames: enclosing loops and scopes, innermost last; see `verify`.
    """

    scalars: dict[str, Scalar]
    frames: tuple[Stmt | None, ...]

    def check(self, holds: bool, rule: str) -> None:
        """Raise VerifyError, with the text of the broken rule, unless `holds` is true."""

    def array(self, name: str) -> ArrayType:
        """Return the type of an array or temporary."""

    def local(self, name: str) -> n.Local:
        """Return the declaration of a local."""

    def local_array(self, name: str) -> n.LocalArray | n.SharedArray:
        """Return the declaration of a local array or shared array."""

    def stack(self, name: str) -> n.StackAlloca:
        """Return the declaration of an adstack."""

    def declare(self, stmt: n.Local | n.LocalArray | n.SharedArray | n.StackAlloca) -> None:
        """Make the name that the statement declares visible for the rest of its block."""


RULES: Table[type[Stmt], Callable[[RuleContext, Any], None]] = Table(
    "verify", STATEMENTS.values(), about="what the verifier demands of the statement"
)


_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "str": (str,), "bool": (bool,), "Scalar": (Scalar,)}


def _kinds(annotation: str) -> tuple[type, ...]:
    """Return the classes whose objects an attribute with this annotation may hold; () means that all are accepted."""
    words = annotation.split(" | ")
    found = tuple(kind for word in words for kind in _KINDS.get(word, ()))
    return () if annotation == _CONSTANT else (*found, type(None)) if found and "None" in words else found


_CONSTANT = "float | int | bool"
ATTRIBUTES: dict[type[Stmt], tuple[tuple[str, tuple[type, ...]], ...]] = {
    cls: tuple((f.name, kinds) for f in fields(cls) if f.name != "loc" and (kinds := _kinds(str(f.type))))
    for cls in STATEMENTS.values()
}
"""This table lists the classes that attributes of statements may hold.

The parser only produces valid ones, such as `step -1`, but without this check a pass could write `step=True`.
"""


def check_type(c: RuleContext, value: Value, dtype: Scalar, what: str) -> None:
    """Raise VerifyError unless a value has the given type; `what` names the value in the message."""
    c.check(value.type == dtype, f"{what} is {dtype}, but %{value.id} is {value.type}")


def check_range(c: RuleContext, index: Value, begin: Value, end: Value) -> None:
    """Raise VerifyError unless the index and the bounds of a range are integers of one type."""
    c.check(index.type.is_int, f"the index of a range is an integer, but %{index.id} is {index.type}")
    check_type(c, begin, index.type, "the begin of the range")
    check_type(c, end, index.type, "the end of the range")


def _index(c: RuleContext, value: Value) -> None:
    c.check(value.type.is_int, f"an index is an integer, but %{value.id} is {value.type}")


def _element(c: RuleContext, name: str, indices: tuple[Value, ...]) -> Scalar:
    """Check number and types of the indices of an array element, and return the type of the element."""
    found = c.array(name)
    c.check(len(indices) == found.ndim, f"{name} has rank {found.ndim}, but {len(indices)} indices are given")
    for index in indices:
        _index(c, index)
    return found.dtype


def _stop(c: RuleContext, name: str | None) -> None:
    if name is not None:
        dtype = c.local(name).dtype
        c.check(dtype == u1, f"the stop of a loop is a u1 local, but {name} is {dtype}")


# ---- values -------------------------------------------------------------------------------------------------


@RULES.row(n.Const)
def _const(c: RuleContext, s: n.Const) -> None:
    try:
        normal = normal_constant(s.value, s.result.type)
    except (TypeError, ValueError, OverflowError):
        c.check(False, f"the constant {s.value!r} is no {s.result.type}")
        return
    # The texts are compared because NaN differs from itself and -0.0 equals 0.0.
    same = type(normal) is type(s.value) and repr(normal) == repr(s.value)
    c.check(same, f"the constant {s.value!r} is no {s.result.type}; its normal form is {normal!r}")


@RULES.row(n.Arg)
def _arg(c: RuleContext, s: n.Arg) -> None:
    c.check(s.name in c.scalars, f"there is no scalar parameter {s.name}")
    check_type(c, s.result, c.scalars[s.name], f"the parameter {s.name}")


@RULES.row(n.Shape)
def _shape(c: RuleContext, s: n.Shape) -> None:
    rank = c.array(s.array).ndim
    c.check(0 <= s.axis < rank, f"{s.array} has rank {rank} and so no axis {s.axis}")
    c.check(s.result.type in (i32, i64), f"an extent is i32 or i64, not {s.result.type}")


@RULES.row(n.Op)
def _op(c: RuleContext, s: n.Op) -> None:
    c.check(s.op in OPS, f"there is no operation {s.op}")
    types = tuple(a.type for a in s.args)
    made = result_type(s.op, types)
    taken = ", ".join(str(t) for t in types)
    c.check(made is not None, f"{s.op} does not take ({taken})")
    c.check(made == s.result.type, f"{s.op} of ({taken}) gives {made}, but %{s.result.id} is {s.result.type}")


@RULES.row(n.Cast, n.Random)
def _any_type(c: RuleContext, s: n.Cast | n.Random) -> None:
    """Accept every type, because any scalar type can be cast to any other one and can be drawn at random."""


@RULES.row(n.Within)
def _within(c: RuleContext, s: n.Within) -> None:
    _index(c, s.index)
    check_type(c, s.result, s.index.type, "an index that is inside")
    c.check(s.extent.type in (i32, i64), f"an extent is i32 or i64, not {s.extent.type}")


@RULES.row(n.BitCast)
def _bit_cast(c: RuleContext, s: n.BitCast) -> None:
    c.check(s.arg.type.bits == s.result.type.bits, f"{s.arg.type} and {s.result.type} differ in width")


# ---- memory -------------------------------------------------------------------------------------------------


@RULES.row(n.Load)
def _load(c: RuleContext, s: n.Load) -> None:
    check_type(c, s.result, _element(c, s.array, s.indices), f"an element of {s.array}")


@RULES.row(n.Store)
def _store(c: RuleContext, s: n.Store) -> None:
    check_type(c, s.value, _element(c, s.array, s.indices), f"an element of {s.array}")


@RULES.row(n.Atomic)
def _atomic(c: RuleContext, s: n.Atomic) -> None:
    dtype = _element(c, s.array, s.indices)
    c.check(s.op in ATOMIC_OPS, f"there is no atomic {s.op}")
    c.check(atomic_fits(s.op, dtype), f"there is no atomic {s.op} of {dtype}")
    check_type(c, s.value, dtype, f"an element of {s.array}")
    check_type(c, s.result, dtype, f"an element of {s.array}")
    c.check((s.expected is not None) == (s.op == "cas"), "atomic cas, and no other, has an expected value")
    if s.expected is not None:
        check_type(c, s.expected, dtype, f"an element of {s.array}")


@RULES.row(n.Local)
def _local(c: RuleContext, s: n.Local) -> None:
    c.declare(s)


@RULES.row(n.LocalArray, n.SharedArray)
def _local_array(c: RuleContext, s: n.LocalArray | n.SharedArray) -> None:
    c.check(s.size >= 1, f"the {'local' if isinstance(s, n.LocalArray) else 'shared'} array {s.var} has no elements")
    c.declare(s)


@RULES.row(n.Get)
def _get(c: RuleContext, s: n.Get) -> None:
    check_type(c, s.result, c.local(s.var).dtype, f"the local {s.var}")


@RULES.row(n.Set)
def _set(c: RuleContext, s: n.Set) -> None:
    check_type(c, s.value, c.local(s.var).dtype, f"the local {s.var}")


@RULES.row(n.GetElement)
def _get_element(c: RuleContext, s: n.GetElement) -> None:
    _index(c, s.index)
    check_type(c, s.result, c.local_array(s.var).dtype, f"an element of {s.var}")


@RULES.row(n.SetElement)
def _set_element(c: RuleContext, s: n.SetElement) -> None:
    _index(c, s.index)
    check_type(c, s.value, c.local_array(s.var).dtype, f"an element of {s.var}")


@RULES.row(n.UpdateElement)
def _update_element(c: RuleContext, s: n.UpdateElement) -> None:
    found = c.local_array(s.var)
    _index(c, s.index)
    c.check(isinstance(found, n.SharedArray), f"{s.var} is no shared array")
    c.check(s.op in ATOMIC_OPS and s.op != "cas", f"there is no update {s.op}")
    c.check(atomic_fits(s.op, found.dtype), f"there is no atomic {s.op} of {found.dtype}")
    check_type(c, s.value, found.dtype, f"an element of {s.var}")
    check_type(c, s.result, found.dtype, f"an element of {s.var}")


@RULES.row(n.Sync)
def _sync(c: RuleContext, s: n.Sync) -> None:
    c.check(s.kind in SYNCS, f"there is no sync {s.kind}")


@RULES.row(n.Collective)
def _collective(c: RuleContext, s: n.Collective) -> None:
    c.check(s.op in COLLECTIVES, f"there is no collective {s.op}")
    c.check(s.width in WIDTHS, f"a group of {s.width} lanes")
    types = tuple(a.type for a in s.args)
    made = COLLECTIVES[s.op].result_type(types)
    c.check(made == s.result.type, f"{s.op} of ({', '.join(map(str, types))}) gives {made}, not {s.result.type}")


# ---- control ------------------------------------------------------------------------------------------------


@RULES.row(n.If, n.Assert)
def _condition(c: RuleContext, s: n.If | n.Assert) -> None:
    check_type(c, s.cond, u1, "a condition")


@RULES.row(n.For)
def _for(c: RuleContext, s: n.For) -> None:
    check_range(c, s.index, s.begin, s.end)
    c.check(s.step != 0, "the step of a range is not 0")
    _stop(c, s.stop)
    _trips(c, s.trips)


def _trips(c: RuleContext, trips: Value | None) -> None:
    if trips:
        c.check(trips.type in (i32, i64), f"a trip count is i32 or i64, not {trips.type}")


@RULES.row(n.While)
def _while(c: RuleContext, s: n.While) -> None:
    check_type(c, s.test, u1, "the test of a while")
    _stop(c, s.stop)
    _trips(c, s.trips)


@RULES.row(n.Scope, n.Return)
def _anything(c: RuleContext, s: n.Scope | n.Return) -> None:
    """Accept the statement, because its stage and its nested statements are checked elsewhere."""


@RULES.row(n.Break)
def _break(c: RuleContext, s: n.Break) -> None:
    _target(c, s.depth, "break")


@RULES.row(n.Continue)
def _continue(c: RuleContext, s: n.Continue) -> None:
    target = _target(c, s.depth, "continue")
    c.check(not isinstance(target, n.Scope), f"continue {s.depth} aims at a scope, not at a loop")


def _target(c: RuleContext, depth: int, word: str) -> Stmt:
    """Return the loop or scope that a `break` or `continue` of this depth refers to.

    A None among the frames is the wall around the condition of a while, which no jump may cross.
    """
    c.check(1 <= depth <= len(c.frames), f"{word} {depth} in {len(c.frames)} enclosing frames")
    crossed = c.frames[len(c.frames) - depth :]
    # A None stands for the wall around the condition of a while.
    c.check(None not in crossed, f"{word} {depth} leaves the condition of a while")
    return crossed[0]  # type: ignore[return-value]


# ---- effects and adstacks -----------------------------------------------------------------------------------


@RULES.row(n.Print)
def _print(c: RuleContext, s: n.Print) -> None:
    holes = len(place_formats(s.template))
    c.check(holes == len(s.args), f"the template has {holes} places for {len(s.args)} arguments")
    for spec, value in zip(place_formats(s.template), s.args):
        c.check(is_printable(spec, value.type), f"the format of `{{:{spec}}}` does not fit {value.type}")


@RULES.row(n.StackAlloca)
def _alloca(c: RuleContext, s: n.StackAlloca) -> None:
    c.check(s.capacity is None or s.capacity >= 0, f"the adstack {s.stack} has a negative capacity")
    c.check(s.dtype.is_real or not s.adjoint, f"an adstack of {s.dtype} has no adjoints")
    kept = adjoint_type(s.dtype)
    c.check(kept == s.dtype or not s.adjoint, f"adjoints of {s.dtype} are {kept}: an adstack with both holds {kept}")
    c.declare(s)


@RULES.row(n.StackPush)
def _push(c: RuleContext, s: n.StackPush) -> None:
    check_type(c, s.value, c.stack(s.stack).dtype, f"a slot of {s.stack}")


@RULES.row(n.StackPop)
def _pop(c: RuleContext, s: n.StackPop) -> None:
    c.stack(s.stack)


@RULES.row(n.StackTop)
def _top(c: RuleContext, s: n.StackTop) -> None:
    check_type(c, s.result, c.stack(s.stack).dtype, f"a slot of {s.stack}")


@RULES.row(n.StackTopAdjoint)
def _top_adjoint(c: RuleContext, s: n.StackTopAdjoint) -> None:
    _adjoint(c, s.stack, s.result)


@RULES.row(n.StackAccumulate)
def _accumulate(c: RuleContext, s: n.StackAccumulate) -> None:
    _adjoint(c, s.stack, s.value)


def _adjoint(c: RuleContext, stack: str, value: Value) -> None:
    found = c.stack(stack)
    c.check(found.adjoint, f"the adstack {stack} is declared without adjoints")
    check_type(c, value, found.dtype, f"an adjoint of {stack}")
