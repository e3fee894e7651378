"""Rows of EXPRESSIONS: what expressions of the user's language mean in the IR, and the types their operands take."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from ...compiler.ir.build import Builder
from ...compiler.ir.nodes import Value
from ...compiler.ir.types import Scalar, i32, promote, u1
from . import nodes as m
from .lower_places import Spot, element, extent_of, memory, read, update
from .lowering import EXPRESSIONS, Cell, Local, Lowerer, Operand, common_type
from .tensors import Bundle, Tensor, leaves, spread, with_leaves

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
        return _argument(t, t.arguments[e.name])
    if isinstance(found, (Tensor, Bundle)):
        return with_leaves(found, [_content(t, item) for item in leaves(found)])  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]


def _content(t: Lowerer, item: Operand | Local | Cell) -> Operand:
    if isinstance(item, Cell):
        return item.read(t.builder)
    return t.builder.get(item.var, item.dtype) if isinstance(item, Local) else item


def _argument(t: Lowerer, param: m.Param) -> Operand:
    assert param.dtype is not None
    entries = tuple(t.builder.arg(name, param.dtype) for name in param.entries)
    return Tensor(param.shape, entries) if param.shape else entries[0]


@EXPRESSIONS.row(m.Element)
def _element(t: Lowerer, e: m.Element) -> Operand:
    return read(t, element(t, e))


@EXPRESSIONS.row(m.Extent)
def _extent(t: Lowerer, e: m.Extent) -> Operand:
    return extent_of(t, e.field, e.axis)


@EXPRESSIONS.row(m.Random)
def _random(t: Lowerer, e: m.Random) -> Operand:
    """`randn`: √(-2 ln(1 - u))·cos(2πv) of two uniform draws."""
    b, dtype = t.builder, e.dtype or t.program.default_fp
    if e.function == "random":
        return b.random(dtype)
    u, v = b.random(dtype), b.random(dtype)
    logarithm = b.op("log", b.op("sub", b.const(1.0, dtype), u))
    radius = b.op("sqrt", b.op("mul", b.const(-2.0, dtype), logarithm))
    return b.op("mul", radius, b.op("cos", b.op("mul", b.const(2.0 * math.pi, dtype), v)))


# ---- operators --------------------------------------------------------------------------------------------------

OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add),
    "-": ("sub", operator.sub),
    "*": ("mul", operator.mul),
    "/": ("div", operator.truediv),
    "//": ("floordiv", operator.floordiv),
    "%": ("mod", operator.mod),
    "**": ("pow", operator.pow),
    "&": ("bit_and", operator.and_),
    "|": ("bit_or", operator.or_),
    "^": ("bit_xor", operator.xor),
    "<<": ("bit_shl", operator.lshift),
    ">>": ("bit_sar", operator.rshift),
}
COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "<": ("cmp_lt", operator.lt),
    "<=": ("cmp_le", operator.le),
    ">": ("cmp_gt", operator.gt),
    ">=": ("cmp_ge", operator.ge),
    "==": ("cmp_eq", operator.eq),
    "!=": ("cmp_ne", operator.ne),
}


def _operand_type(t: Lowerer, op: str, left: Operand, right: Operand) -> Scalar:
    a, b = t.type_of(left), t.type_of(right)
    if op in ("<<", ">>"):
        return a if isinstance(left, Value) else common_type(a, b)
    if op in ("&", "|", "^"):
        return common_type(a, b)
    common = promote(a, b)
    return t.program.default_fp if op == "/" and not common.is_real else common


def binary(t: Lowerer, op: str, left: Operand, right: Operand) -> Operand:
    """An operator on two operands, entry by entry on vectors; two numbers are computed as Python does."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return spread(t, partial(binary, t, op), left, right)  # type: ignore[no-any-return]
    name, fold = OPERATORS[op]
    if not isinstance(left, Value) and not isinstance(right, Value):
        return fold(left, right)  # type: ignore[no-any-return]
    dtype = _operand_type(t, op, left, right)
    name = "bit_shr" if op == ">>" and dtype.kind == "u" else name
    return t.builder.op(name, t.value(left, dtype), t.value(right, dtype))


@EXPRESSIONS.row(m.Binary)
def _binary(t: Lowerer, e: m.Binary) -> Operand:
    left = t.expr(e.left)
    right = t.expr(e.right)
    return PRODUCTS[e.op](t, left, right) if e.op in PRODUCTS else binary(t, e.op, left, right)


PRODUCTS: dict[str, Callable[[Lowerer, Any, Any], Operand]] = {}
"""Operators that are not entry by entry: `@`."""


@EXPRESSIONS.row(m.Unary)
def _unary(t: Lowerer, e: m.Unary) -> Operand:
    return spread(t, partial(_unary_of_one, t, e), t.expr(e.arg))  # type: ignore[no-any-return]


def _unary_of_one(t: Lowerer, e: m.Unary, arg: Operand) -> Operand:
    if e.op == "not":
        truth = t.truth(arg)
        return t.builder.op("logic_not", truth) if isinstance(truth, Value) else not truth
    if not isinstance(arg, Value):
        assert not isinstance(arg, (tuple, Tensor, Bundle))
        return {"-": -arg, "+": +arg}[e.op] if e.op != "~" else operator.invert(arg)  # type: ignore[arg-type]
    return arg if e.op == "+" else t.builder.op("neg" if e.op == "-" else "bit_not", arg)


def _compare_two(t: Lowerer, op: str, left: Operand, right: Operand) -> Operand:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return spread(t, partial(_compare_two, t, op), left, right)  # type: ignore[no-any-return]
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
    pairs = list(zip(leaves(a), leaves(b), strict=True))
    types = [common_type(t.type_of(x), t.type_of(y)) for x, y in pairs]
    results = [t.builder.local(t.unique("choice"), dtype) for dtype in types]
    for body, operands in ((then, leaves(a)), (orelse, leaves(b))):
        with t.builder.block() as end:
            for result, operand, dtype in zip(results, operands, types):
                t.builder.set(result, t.value(operand, dtype))
        body.extend(end)
    t.builder.if_(condition, then, orelse)
    return with_leaves(a, [t.builder.get(r, dtype) for r, dtype in zip(results, types)])  # type: ignore[no-any-return]


# ---- conversions ------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Cast)
def _cast(t: Lowerer, e: m.Cast) -> Operand:
    python = {"int": i32, "float": t.program.default_fp, "bool": u1}
    dtype = e.dtype or python[e.spelling]
    return spread(t, lambda x: t.value(x, dtype), t.expr(e.arg))  # type: ignore[no-any-return]


@EXPRESSIONS.row(m.BitCast)
def _bit_cast(t: Lowerer, e: m.BitCast) -> Operand:
    return t.builder.bit_cast(t.value(t.expr(e.arg)), e.dtype)


# ---- functions --------------------------------------------------------------------------------------------------

_REAL = frozenset({"sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "inv", "rcp"})
_WHOLE = frozenset({"floor", "ceil", "round"})
Function = Callable[[Lowerer, tuple[Operand, ...]], Operand]


@EXPRESSIONS.row(m.Call)
def _call(t: Lowerer, e: m.Call) -> Operand:
    return spread(t, lambda *args: _call_of_scalars(t, e, args), *(t.expr(a) for a in e.args))  # type: ignore[no-any-return]


def _call_of_scalars(t: Lowerer, e: m.Call, args: tuple[Operand, ...]) -> Operand:
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


def _constant(value: int) -> Function:
    """`zero` and `one`: of the type of their argument."""
    return lambda t, args: t.value(value, t.type_of(args[0]))


def _stopped(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    """A real as bits of its own type."""
    found = args[0]
    return t.builder.bit_cast(found, found.type) if isinstance(found, Value) and found.type.is_real else found


def _claimed(t: Lowerer, args: tuple[Operand, ...]) -> Operand:
    """An index that no two iterations share; each claim has a number of its own."""
    number = t.builder.next_id
    value = t.value(args[0])
    return t.builder.op("unique", value, t.builder.const(number, value.type))


def _mixed(t: Lowerer, x: Operand, y: Operand, a: Operand) -> Operand:
    """x·(1 - a) + y·a."""
    return binary(t, "+", binary(t, "*", x, binary(t, "-", 1.0, a)), binary(t, "*", y, a))


def _fraction(t: Lowerer, x: Operand) -> Operand:
    """x - floor(x)."""
    return binary(t, "-", x, t.builder.op("floor", t.value(x)))


def _smooth_step(t: Lowerer, low: Operand, high: Operand, x: Operand) -> Operand:
    """s²(3 - 2s) where s goes from 0 to 1 between the edges."""
    ratio = binary(t, "/", binary(t, "-", x, low), binary(t, "-", high, low))
    s = FUNCTIONS["math.clamp"](t, (ratio, 0.0, 1.0))
    return binary(t, "*", binary(t, "*", s, s), binary(t, "-", 3.0, binary(t, "*", 2.0, s)))


FUNCTIONS: dict[str, Function] = {
    "min": _extremum("min"),
    "max": _extremum("max"),
    "atan2": _atan2,
    "select": _select,
    "frexp": _frexp,
    "raw_mod": _raw_mod,
    "raw_div": _raw_div,
    "isnan": _isnan,
    "isinf": _isinf,
    "bit_shr": _bit_shr,
    "pow": lambda t, args: binary(t, "**", *args),
    "zero": _constant(0),
    "one": _constant(1),
    "stop_grad": _stopped,
    "volatile_load": lambda t, args: args[0],
    "assume_unique": _claimed,
    "math.mix": lambda t, args: _mixed(t, *args),
    "math.fract": lambda t, args: _fraction(t, *args),
    "math.clamp": lambda t, args: FUNCTIONS["min"](t, (args[2], FUNCTIONS["max"](t, args[:2]))),
    "math.smoothstep": lambda t, args: _smooth_step(t, *args),
}
"""Functions that are not one operation of the IR on one operand."""
FOLDED: dict[str, Callable[[int, int], int]] = {
    "abs": min,
    "min": min,
    "max": max,
    "raw_mod": lambda a, b: int(math.fmod(a, b)),
    "raw_div": lambda a, b: int(a / b),
}
"""Calls that are made at once on small integers of the text, as the index of an unrolled loop."""


# ---- effects ----------------------------------------------------------------------------------------------------

ATOMICS = {"+": "add", "-": "sub", "*": "mul", "&": "bit_and", "|": "bit_or", "^": "bit_xor"}
"""Augmented assignments of elements that are one atomic."""


@EXPRESSIONS.row(m.AtomicCall)
def _atomic(t: Lowerer, e: m.AtomicCall) -> Operand:
    place = memory(t, e.target)
    name = f"bit_{e.op}" if e.op in ("and", "or", "xor") else e.op
    if e.expected is None:
        return update(t, name, place, t.expr(e.value))
    assert isinstance(place, Spot)
    dtype = t.fields[place.array].dtype
    expected, value = (t.value(t.expr(x), dtype) for x in (e.expected, e.value))
    return t.builder.atomic(name, place.array, place.indices, value, expected)
