"""Rows of EXPRESSIONS: what expressions of the user's language mean in the IR, and the types their operands take."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from ...compiler.ir.build import Builder
from ...compiler.ir.nodes import Value
from ...compiler.ir.types import Scalar, i32, promote, u1
from . import nodes as m
from .lowering import EXPRESSIONS, Local, Lowerer, Operand, common_type

# ---- leaves -----------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Number)
def _number(t: Lowerer, e: m.Number) -> Operand:
    return e.value


@EXPRESSIONS.row(m.Name)
def _name(t: Lowerer, e: m.Name) -> Operand:
    found = t.find(e.name)
    if isinstance(found, Local):
        return t.builder.get(found.var, found.dtype)
    if found is None:
        dtype = t.arguments[e.name]
        assert dtype is not None
        return t.builder.arg(e.name, dtype)
    return found  # type: ignore[no-any-return]


@EXPRESSIONS.row(m.Element)
def _element(t: Lowerer, e: m.Element) -> Operand:
    indices = tuple(t.index(t.expr(i)) for i in e.indices)
    return t.builder.load(e.field, indices, t.fields[e.field].dtype)


@EXPRESSIONS.row(m.Extent)
def _extent(t: Lowerer, e: m.Extent) -> Operand:
    return t.builder.shape(e.field, e.axis)


@EXPRESSIONS.row(m.Random)
def _random(t: Lowerer, e: m.Random) -> Operand:
    return t.builder.random(e.dtype or t.program.default_fp)


# ---- operators --------------------------------------------------------------------------------------------------

OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add), "-": ("sub", operator.sub), "*": ("mul", operator.mul), "/": ("div", operator.truediv),
    "//": ("floordiv", operator.floordiv), "%": ("mod", operator.mod), "**": ("pow", operator.pow),
    "&": ("bit_and", operator.and_), "|": ("bit_or", operator.or_), "^": ("bit_xor", operator.xor),
    "<<": ("bit_shl", operator.lshift), ">>": ("bit_sar", operator.rshift),
}  # fmt: skip
COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "<": ("cmp_lt", operator.lt), "<=": ("cmp_le", operator.le), ">": ("cmp_gt", operator.gt),
    ">=": ("cmp_ge", operator.ge), "==": ("cmp_eq", operator.eq), "!=": ("cmp_ne", operator.ne),
}  # fmt: skip


def _operand_type(t: Lowerer, op: str, left: Operand, right: Operand) -> Scalar:
    a, b = t.type_of(left), t.type_of(right)
    if op in ("<<", ">>"):
        return a if isinstance(left, Value) else common_type(a, b)
    if op in ("&", "|", "^"):
        return common_type(a, b)
    common = promote(a, b)
    return t.program.default_fp if op == "/" and not common.is_real else common


def binary(t: Lowerer, op: str, left: Operand, right: Operand) -> Operand:
    """An operator on two operands; two numbers are computed as Python does."""
    name, fold = OPERATORS[op]
    if not isinstance(left, Value) and not isinstance(right, Value):
        return fold(left, right)  # type: ignore[no-any-return]
    dtype = _operand_type(t, op, left, right)
    name = "bit_shr" if op == ">>" and dtype.kind == "u" else name
    return t.builder.op(name, t.value(left, dtype), t.value(right, dtype))


@EXPRESSIONS.row(m.Binary)
def _binary(t: Lowerer, e: m.Binary) -> Operand:
    left = t.expr(e.left)
    return binary(t, e.op, left, t.expr(e.right))


@EXPRESSIONS.row(m.Unary)
def _unary(t: Lowerer, e: m.Unary) -> Operand:
    arg = t.expr(e.arg)
    if e.op == "not":
        truth = t.truth(arg)
        return t.builder.op("logic_not", truth) if isinstance(truth, Value) else not truth
    if not isinstance(arg, Value):
        assert not isinstance(arg, tuple)
        return {"-": -arg, "+": +arg}[e.op] if e.op != "~" else operator.invert(arg)  # type: ignore[arg-type]
    return arg if e.op == "+" else t.builder.op("neg" if e.op == "-" else "bit_not", arg)


def _compare_two(t: Lowerer, op: str, left: Operand, right: Operand) -> Operand:
    name, fold = COMPARISONS[op]
    if not isinstance(left, Value) and not isinstance(right, Value):
        return bool(fold(left, right))
    dtype = common_type(t.type_of(left), t.type_of(right))
    return t.builder.op(name, t.value(left, dtype), t.value(right, dtype))


@EXPRESSIONS.row(m.Compare)
def _compare(t: Lowerer, e: m.Compare) -> Operand:
    """Each operand once, left to right, until a comparison fails."""
    left = t.expr(e.operands[0])
    right = t.expr(e.operands[1])
    return _chain(t, e, 1, right, _compare_two(t, e.ops[0], left, right))


def _chain(t: Lowerer, e: m.Compare, position: int, left: Operand, so_far: Operand) -> Operand:
    if position == len(e.ops):
        return so_far

    def rest() -> Operand:
        right = t.expr(e.operands[position + 1])
        return _chain(t, e, position + 1, right, _compare_two(t, e.ops[position], left, right))

    return _lazily(t, True, so_far, rest)


@EXPRESSIONS.row(m.Logic)
def _logic(t: Lowerer, e: m.Logic) -> Operand:
    def link(position: int) -> Operand:
        first = t.truth(t.expr(e.operands[position]))
        if position + 1 == len(e.operands):
            return first
        return _lazily(t, e.op == "and", first, lambda: link(position + 1))

    return link(0)


def _lazily(t: Lowerer, conjunction: bool, first: Operand, rest: Callable[[], Operand]) -> Operand:
    """`first and rest()` or `first or rest()`."""
    truth = t.truth(first)
    if not isinstance(truth, Value):
        return t.truth(rest()) if truth is conjunction else truth
    result = t.builder.local(t.unique("logic"), u1, truth)
    with t.block() as body:
        t.builder.set(result, t.condition(rest()))
    t.builder.if_(t.builder.get(result, u1), *((body, []) if conjunction else ([], body)))
    return t.builder.get(result, u1)


@EXPRESSIONS.row(m.Choice)
def _choice(t: Lowerer, e: m.Choice) -> Operand:
    condition = t.truth(t.expr(e.condition))
    if not isinstance(condition, Value):
        return t.expr(e.then if condition else e.orelse)
    with t.block() as then:
        a = t.expr(e.then)
    with t.block() as orelse:
        b = t.expr(e.orelse)
    dtype = common_type(t.type_of(a), t.type_of(b))
    result = t.builder.local(t.unique("choice"), dtype)
    for body, operand in ((then, a), (orelse, b)):
        with t.builder.block() as end:
            t.builder.set(result, t.value(operand, dtype))
        body.extend(end)
    t.builder.if_(condition, then, orelse)
    return t.builder.get(result, dtype)


# ---- conversions ------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Cast)
def _cast(t: Lowerer, e: m.Cast) -> Operand:
    python = {"int": i32, "float": t.program.default_fp, "bool": u1}
    return t.value(t.expr(e.arg), e.dtype or python[e.spelling])


@EXPRESSIONS.row(m.BitCast)
def _bit_cast(t: Lowerer, e: m.BitCast) -> Operand:
    return t.builder.bit_cast(t.value(t.expr(e.arg)), e.dtype)


# ---- functions --------------------------------------------------------------------------------------------------

_REAL = frozenset({"sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "inv", "rcp"})
_WHOLE = frozenset({"floor", "ceil", "round"})
Function = Callable[[Lowerer, tuple[Operand, ...]], Operand]


@EXPRESSIONS.row(m.Call)
def _call(t: Lowerer, e: m.Call) -> Operand:
    args = tuple(t.expr(a) for a in e.args)
    if e.function in FOLDED and all(isinstance(a, int) for a in args):
        made = reduce(FOLDED[e.function], args)  # type: ignore[arg-type]
        return abs(made) if e.function == "abs" else made  # type: ignore[arg-type]
    if e.function in FUNCTIONS:
        made = FUNCTIONS[e.function](t, args)
    elif e.function in _WHOLE and not t.type_of(args[0]).is_real:
        made = args[0]
    else:
        dtype = t.type_of(args[0])
        dtype = t.program.default_fp if e.function in _REAL and not dtype.is_real else dtype
        made = t.builder.op(e.function, t.value(args[0], dtype))
    return t.value(made, e.dtype) if e.dtype else made


def _promoted(t: Lowerer, args: tuple[Operand, ...]) -> tuple[Value, ...]:
    dtype = reduce(promote, map(t.type_of, args))
    return tuple(t.value(a, dtype) for a in args)


def _extremum(name: str) -> Function:
    def lower(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
        return reduce(lambda a, b: t.builder.op(name, *_promoted(t, (a, b))), args)

    return lower


def _atan2(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    dtype = promote(*map(t.type_of, args))
    dtype = dtype if dtype.is_real else t.program.default_fp
    return t.builder.op("atan2", *(t.value(a, dtype) for a in args))


def _select(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    dtype = common_type(t.type_of(args[1]), t.type_of(args[2]))
    return t.builder.op("select", t.condition(args[0]), t.value(args[1], dtype), t.value(args[2], dtype))


def _frexp(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    dtype = t.type_of(args[0])
    value = t.value(args[0], dtype if dtype.is_real else t.program.default_fp)
    return t.builder.op("frexp_mantissa", value), t.builder.op("frexp_exponent", value)


def _remainder(b: Builder, x: Value, y: Value) -> Value:
    """Of a division toward zero: `mod` has the sign of y; take y off where the sign of x differs."""
    zero = b.const(0, x.type)
    rest = b.op("mod", x, y)
    other = b.op("cmp_ne", b.op("cmp_lt", x, zero), b.op("cmp_lt", y, zero))
    return b.op("select", b.op("logical_and", other, b.op("cmp_ne", rest, zero)), b.op("sub", rest, y), rest)


def _raw_mod(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    return _remainder(t.builder, *_promoted(t, args))


def _raw_div(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    """Integers: what is left without the remainder divides exactly."""
    b = t.builder
    x, y = _promoted(t, args)
    return b.op("div", x, y) if x.type.is_real else b.op("floordiv", b.op("sub", x, _remainder(b, x, y)), y)


def _isnan(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    value = t.value(args[0])
    return t.builder.op("logic_not", t.builder.op("cmp_eq", value, value))


def _isinf(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    value = t.value(args[0])
    return t.builder.op("cmp_eq", t.builder.op("abs", value), t.builder.const(math.inf, value.type))


def _bit_shr(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    x = t.value(args[0])
    return t.builder.op("bit_shr", x, t.value(args[1], x.type))


FUNCTIONS: dict[str, Function] = {
    "min": _extremum("min"), "max": _extremum("max"), "atan2": _atan2, "select": _select, "frexp": _frexp,
    "raw_mod": _raw_mod, "raw_div": _raw_div, "isnan": _isnan, "isinf": _isinf, "bit_shr": _bit_shr,
    "pow": lambda t, args: binary(t, "**", *args),
}  # fmt: skip
"""Functions that are not one operation of the IR on one operand."""
FOLDED: dict[str, Callable[[int, int], int]] = {
    "abs": min, "min": min, "max": max,
    "raw_mod": lambda a, b: int(math.fmod(a, b)), "raw_div": lambda a, b: int(a / b),
}  # fmt: skip
"""Calls that are made at once on small integers of the text, as the index of an unrolled loop."""


# ---- effects ----------------------------------------------------------------------------------------------------

ATOMICS = {"+": "add", "-": "sub", "*": "mul", "&": "bit_and", "|": "bit_or", "^": "bit_xor"}
"""Augmented assignments of elements that are one atomic."""


def update(t: Lowerer, op: str, target: m.Element, indices: tuple[Value, ...], operand: Operand) -> Value:
    """The atomic on an element, of the element's type; subtraction adds the negated value."""
    dtype = t.fields[target.field].dtype
    if op == "sub":
        negated = not isinstance(operand, (Value, bool, tuple))
        value = t.value(-operand, dtype) if negated else t.builder.op("neg", t.value(operand, dtype))  # type: ignore[operator]
        return t.builder.atomic("add", target.field, indices, value)
    return t.builder.atomic(op, target.field, indices, t.value(operand, dtype))


@EXPRESSIONS.row(m.AtomicCall)
def _atomic(t: Lowerer, e: m.AtomicCall) -> Operand:
    indices = tuple(t.index(t.expr(i)) for i in e.target.indices)
    name = f"bit_{e.op}" if e.op in ("and", "or", "xor") else e.op
    return update(t, name, e.target, indices, t.expr(e.value))
