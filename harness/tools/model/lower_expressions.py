"""Lower scalar expressions of the user's language to IR, with conversions of the operands to common types."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from ....compiler.ir.statement import Value
from ....compiler.ir.types import Scalar, i32, promote, u1
from . import nodes as m
from .lower_places import ArrayElementSlot, element, extent_of, lower_place, read, update
from .lowering import EXPRESSIONS, LocalArraySlot, LocalSlot, Lowerer, ModelOperand, common_type
from .tensors import StructOperand, TensorOperand, leaves, map_entries, with_leaves


@EXPRESSIONS.row(m.Number)
def _number(t: Lowerer, e: m.Number) -> ModelOperand:
    return e.value


@EXPRESSIONS.row(m.Name)
def _name(t: Lowerer, e: m.Name) -> ModelOperand:
    found = t.find(e.name)
    if isinstance(found, LocalSlot):
        return t.builder.get(found.var, found.dtype)
    if found is None:
        return _argument(t, t.arguments[e.name])
    if isinstance(found, (TensorOperand, StructOperand)):
        return with_leaves(found, [_content(t, item) for item in leaves(found)])  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]


def _content(t: Lowerer, item: ModelOperand | LocalSlot | LocalArraySlot) -> ModelOperand:
    if isinstance(item, LocalArraySlot):
        return item.read(t.builder)
    return t.builder.get(item.var, item.dtype) if isinstance(item, LocalSlot) else item


def _argument(t: Lowerer, param: m.Param) -> ModelOperand:
    assert param.dtype is not None
    entries = tuple(t.builder.arg(name, param.dtype) for name in param.entries)
    return TensorOperand(param.shape, entries) if param.shape else entries[0]


@EXPRESSIONS.row(m.Element)
def _element(t: Lowerer, e: m.Element) -> ModelOperand:
    return read(t, element(t, e))


@EXPRESSIONS.row(m.Extent)
def _extent(t: Lowerer, e: m.Extent) -> ModelOperand:
    return extent_of(t, e.field, e.axis)


@EXPRESSIONS.row(m.Random)
def _random(t: Lowerer, e: m.Random) -> ModelOperand:
    """Emit a random draw and return its value.

    `randn` is √(-2 ln(1 - u))·cos(2πv) of two uniform draws u and v.
    """
    b, dtype = t.builder, e.dtype or t.program.default_fp
    if e.function == "random":
        return b.random(dtype)
    u, v = b.random(dtype), b.random(dtype)
    logarithm = b.op("log", b.op("sub", b.const(1.0, dtype), u))
    radius = b.op("sqrt", b.op("mul", b.const(-2.0, dtype), logarithm))
    return b.op("mul", radius, b.op("cos", b.op("mul", b.const(2.0 * math.pi, dtype), v)))


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


def _operand_type(t: Lowerer, op: str, left: ModelOperand, right: ModelOperand) -> Scalar:
    a, b = t.type_of(left), t.type_of(right)
    if op in ("<<", ">>"):
        return a if isinstance(left, Value) else common_type(a, b)
    if op in ("&", "|", "^"):
        return common_type(a, b)
    common = promote(a, b)
    return t.program.default_fp if op == "/" and not common.is_real else common


def binary(t: Lowerer, op: str, left: ModelOperand, right: ModelOperand) -> ModelOperand:
    """Emit an operator on two operands, entry by entry on vectors, and return the result.

    Two numbers of the text are computed at once, as Python does.
    """
    if isinstance(left, TensorOperand) or isinstance(right, TensorOperand):
        return map_entries(t, partial(binary, t, op), left, right)  # type: ignore[no-any-return]
    name, fold = OPERATORS[op]
    if not isinstance(left, Value) and not isinstance(right, Value):
        return fold(left, right)  # type: ignore[no-any-return]
    dtype = _operand_type(t, op, left, right)
    name = "bit_shr" if op == ">>" and dtype.kind == "u" else name
    return t.builder.op(name, t.value(left, dtype), t.value(right, dtype))


@EXPRESSIONS.row(m.Binary)
def _binary(t: Lowerer, e: m.Binary) -> ModelOperand:
    left = t.expr(e.left)
    right = t.expr(e.right)
    return PRODUCTS[e.op](t, left, right) if e.op in PRODUCTS else binary(t, e.op, left, right)


PRODUCTS: dict[str, Callable[[Lowerer, Any, Any], ModelOperand]] = {}
"""Operators that do not work entry by entry, such as `@`."""


@EXPRESSIONS.row(m.Unary)
def _unary(t: Lowerer, e: m.Unary) -> ModelOperand:
    return map_entries(t, partial(_unary_of_one, t, e), t.expr(e.arg))  # type: ignore[no-any-return]


def _unary_of_one(t: Lowerer, e: m.Unary, arg: ModelOperand) -> ModelOperand:
    if e.op == "not":
        truth = t.truth(arg)
        return t.builder.op("logic_not", truth) if isinstance(truth, Value) else not truth
    if not isinstance(arg, Value):
        assert not isinstance(arg, (tuple, TensorOperand, StructOperand))
        return {"-": -arg, "+": +arg}[e.op] if e.op != "~" else operator.invert(arg)  # type: ignore[arg-type]
    return arg if e.op == "+" else t.builder.op("neg" if e.op == "-" else "bit_not", arg)


def _compare_two(t: Lowerer, op: str, left: ModelOperand, right: ModelOperand) -> ModelOperand:
    if isinstance(left, TensorOperand) or isinstance(right, TensorOperand):
        return map_entries(t, partial(_compare_two, t, op), left, right)  # type: ignore[no-any-return]
    name, fold = COMPARISONS[op]
    if not isinstance(left, Value) and not isinstance(right, Value):
        return bool(fold(left, right))
    dtype = common_type(t.type_of(left), t.type_of(right))
    return t.builder.op(name, t.value(left, dtype), t.value(right, dtype))


@EXPRESSIONS.row(m.Compare)
def _compare(t: Lowerer, e: m.Compare) -> ModelOperand:
    """Emit a chain of comparisons: evaluate each operand once, from left to right, until a comparison is false."""
    left = t.expr(e.operands[0])
    right = t.expr(e.operands[1])
    return _chain(t, e, 1, right, _compare_two(t, e.ops[0], left, right))


def _chain(t: Lowerer, e: m.Compare, position: int, left: ModelOperand, so_far: ModelOperand) -> ModelOperand:
    if position == len(e.ops):
        return so_far

    def rest() -> ModelOperand:
        right = t.expr(e.operands[position + 1])
        return _chain(t, e, position + 1, right, _compare_two(t, e.ops[position], left, right))

    return _lazily(t, True, so_far, rest)


@EXPRESSIONS.row(m.Logic)
def _logic(t: Lowerer, e: m.Logic) -> ModelOperand:
    def link(position: int) -> ModelOperand:
        first = t.truth(t.expr(e.operands[position]))
        if position + 1 == len(e.operands):
            return first
        return _lazily(t, e.op == "and", first, lambda: link(position + 1))

    return link(0)


def _lazily(t: Lowerer, conjunction: bool, first: ModelOperand, rest: Callable[[], ModelOperand]) -> ModelOperand:
    """Emit `first and rest()` if `conjunction` is true, else `first or rest()`; `rest` runs only if needed."""
    truth = t.truth(first)
    if not isinstance(truth, Value):
        return t.truth(rest()) if truth is conjunction else truth
    result = t.builder.local(t.unique("logic"), u1, truth)
    with t.block() as body:
        t.builder.set(result, t.condition(rest()))
    t.builder.if_(t.builder.get(result, u1), *((body, []) if conjunction else ([], body)))
    return t.builder.get(result, u1)


@EXPRESSIONS.row(m.Choice)
def _choice(t: Lowerer, e: m.Choice) -> ModelOperand:
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


@EXPRESSIONS.row(m.Cast)
def _cast(t: Lowerer, e: m.Cast) -> ModelOperand:
    python = {"int": i32, "float": t.program.default_fp, "bool": u1}
    dtype = e.dtype or python[e.spelling]
    return map_entries(t, lambda x: t.value(x, dtype), t.expr(e.arg))  # type: ignore[no-any-return]


@EXPRESSIONS.row(m.BitCast)
def _bit_cast(t: Lowerer, e: m.BitCast) -> ModelOperand:
    return t.builder.bit_cast(t.value(t.expr(e.arg)), e.dtype)


# ---- effects ----------------------------------------------------------------------------------------------------

ATOMICS = {"+": "add", "-": "sub", "*": "mul", "&": "bit_and", "|": "bit_or", "^": "bit_xor"}
"""Augmented assignments to elements that become one atomic."""


@EXPRESSIONS.row(m.AtomicCall)
def _atomic(t: Lowerer, e: m.AtomicCall) -> ModelOperand:
    place = lower_place(t, e.target)
    name = f"bit_{e.op}" if e.op in ("and", "or", "xor") else e.op
    if e.expected is None:
        return update(t, name, place, t.expr(e.value))
    assert isinstance(place, ArrayElementSlot)
    dtype = t.fields[place.array].dtype
    expected, value = (t.value(t.expr(x), dtype) for x in (e.expected, e.value))
    return t.builder.atomic(name, place.array, place.indices, value, expected)
