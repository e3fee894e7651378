"""Draw programs of single operations such as `o0[i] = a0[i] // b0[i]`, of all types and with edge-case operands.

Whole programs hold only small integers that are not negative, because these serve as indices and trip counts. This
module covers all other operands, and the types that no index has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....compiler.ir.types import INTEGERS, SCALARS, Scalar, f16, f32, f64, i32, i64, u1
from ..model import nodes as m
from ..model.nodes import Expr
from .draw import Chooser
from .values import Number, any_number, ordinary_number

OPERATIONS = "operations"
LINES, LANES = (3, 4, 5, 6), (3, 8, 5, 2)
EDGES_OF_REALS, EDGES_OF_INTEGERS = 0.1, 0.75
"""Shares of edge values.

The share of reals is small, because error bounds near the ends of their range decide nothing.
"""

Make = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True)
class OperationForm:
    """Represent an operation that programs may contain, by its expression, result type and valid operands.

    Attributes:
        make: Function from two operands to the expression.
        result: Type of the result; None for the type of the operands.
        right: Requirement on the second operand: 'any', 'divisor', 'shift' or 'exponent'.
    """

    make: Make
    result: Scalar | None = None
    right: str = "any"


def _binary(op: str, right: str = "any") -> OperationForm:
    return OperationForm(lambda a, b: m.Binary(op, a, b), None, right)


def _compare(op: str) -> OperationForm:
    return OperationForm(lambda a, b: m.Cast(m.Compare((op,), (a, b)), i32, "type"), i32)


def _call(name: str, arity: int = 1, result: Scalar | None = None, right: str = "any") -> OperationForm:
    return OperationForm(lambda a, b: m.Call(name, (a, b)[:arity]), result, right)


_COMPARISONS = tuple(map(_compare, ("<", "<", "<", "<=", ">", ">=", "==", "!=")))
_SHARED = (
    *map(_binary, "+-*"),
    *_COMPARISONS,
    _call("min", 2),
    _call("max", 2),
    _call("abs"),
    OperationForm(lambda a, b: m.Unary("-", a)),
    OperationForm(lambda a, b: m.Choice(m.Compare(("<",), (a, b)), b, a)),
)
_ANY_INTEGER = (
    *_SHARED,
    *map(_binary, "&|^"),
    OperationForm(lambda a, b: m.Unary("~", a)),
    _binary("//", "divisor"),
    _binary("%", "divisor"),
    _binary("<<", "shift"),
    _binary(">>", "shift"),
    _binary("//", "divisor"),
)
_WIDE_INTEGER = (_call("popcnt"), _call("clz"), _call("ffs"), _call("bit_shr", 2, right="shift"))
"""Forms of i32 and i64 only, which are the types that whole programs use them on."""
_REAL = (
    *_SHARED,
    _binary("/"),
    _binary("//", "divisor"),
    _binary("%", "divisor"),
    _call("atan2", 2),
    _call("raw_div", 2, right="divisor"),
    _call("raw_mod", 2, right="divisor"),
    _call("pow", 2, right="exponent"),
    *map(_call, ("sin", "cos", "tanh", "exp", "floor", "ceil", "round", "sgn", "sqrt", "log", "asin", "tan", "inv")),
)
_CASTS = tuple(
    OperationForm(lambda a, b, to=to: m.Cast(a, to, "cast"), to)  # type: ignore[misc]
    for to in SCALARS.values()
    if not to.is_bool
)


def draw_operations(draw: Chooser) -> m.Program:
    """Return a random program of a few assignments of one operation each, with separate fields for each."""
    main = draw.choice((f64, f32))
    lanes = draw.choice(LANES)
    lines = [_line(draw, k, lanes) for k in range(draw.choice(LINES))]
    body = tuple(stmt for line in lines for stmt in line.body)
    domain = m.Range(None, m.Number(lanes))
    kernel = m.Kernel("k", (m.For(("i",), domain, body),))
    fields = tuple(f for line in lines for f in line.fields)
    seeds = tuple((f.name, (1.0, 0.5, -0.75, 1.25, -1.0, 0.25, 2.0, 1.0)[:lanes]) for f in fields if f.grad)
    contents = tuple(c for line in lines for c in line.contents)
    return m.Program(kernel, fields, (), m.Inputs(contents, (), seeds), main, OPERATIONS)


@dataclass(frozen=True)
class _Line:
    body: tuple[m.Stmt, ...]
    fields: tuple[m.Field, ...]
    contents: tuple[tuple[str, m.Content], ...]


def _line(draw: Chooser, k: int, lanes: int) -> _Line:
    """Return a random assignment `o[i] = ...` of one operation, with its fields and their contents."""
    dtype = draw.choice((*INTEGERS, f32, f64, f32, f64, f16))
    rows = _REAL if dtype.is_real else _ANY_INTEGER + (_WIDE_INTEGER if dtype in (i32, i64) else ())
    row = draw.choice(_CASTS) if draw.boolean(0.15) else draw.choice(rows)
    result = row.result or dtype
    i = (m.Name("i"),)
    a, b, out = f"a{k}", f"b{k}", f"o{k}"
    body = m.Assign((m.Element(out, i),), (row.make(m.Element(a, i), m.Element(b, i)),))
    grad = dtype.is_real and result.is_real and draw.boolean()
    left = tuple(_operand(draw, dtype, "any") for _ in range(lanes))
    right = tuple(_operand(draw, dtype, row.right) for _ in range(lanes))
    kinds = ((a, dtype), (b, dtype), (out, result))
    fields = tuple(m.Field(name, kind, (lanes,), grad) for name, kind in kinds)
    used = right if any(n == m.Element(b, i) for n in _operands(body)) else None
    contents = ((a, left), *(((b, used),) if used else ()), (out, (False if result == u1 else 0,) * lanes))
    return _Line((body,), fields if used else (fields[0], fields[2]), contents)


def _operands(body: m.Stmt) -> list[m.Expr]:
    from ..model.walk import walk

    return [node for node in walk(body) if isinstance(node, m.Element)]


def _operand(draw: Chooser, dtype: Scalar, kind: str) -> Number:
    """Return an operand that meets the requirement `kind` of an operation (see `OperationForm.right`)."""
    if kind == "shift":
        return draw.integer(0, min(dtype.bits - 1, 70))
    if kind == "exponent":
        return draw.choice((2.0, 0.5, 1.0, -1.0, 3.0, 1.5))
    value = any_number(draw, dtype, EDGES_OF_REALS if dtype.is_real else EDGES_OF_INTEGERS)
    if kind == "divisor" and value == 0:
        return ordinary_number(draw, dtype) or 3
    return value
