"""This module decides the types of literals and results of operations, including the promotion of operands.

Invariant: no function here emits a statement. Given operand types, a rule names the operation of the IR and the type
that both operands take before it, or raises a located mistake.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import short_repr
from ..ir.table import Table
from ..ir.types import SCALARS, Scalar, f32, from_dtype, i32, i64, promote, u1, u64
from .diagnostics import type_problem
from .operands import MatrixValue, Number, Operand, Static, StructValue, describe


@dataclass(frozen=True)
class FrontendOptions:
    """This class holds the options that control how a kernel is traced.

    Attributes:
        default_fp: type of real literals and of `float()`.
        default_ip: type of integer literals and of `int()`.
        debug: True to emit assertions for ranges and for indices of vectors and views.
        bounds: True to compare positions that only the launch knows with the number of entries.
    """

    default_fp: Scalar = f32
    default_ip: Scalar = i32
    debug: bool = False
    bounds: bool = True


def literal_type(value: Number, options: FrontendOptions) -> Scalar:
    """Return the type of a Python number: the default type, or i64 or u64 for an integer that is too large for it.

    Raises:
        ProblemError: 64 bits do not hold the integer.
    """
    if isinstance(value, bool):
        return u1
    if isinstance(value, float):
        return options.default_fp
    for dtype in (options.default_ip, i64, u64):
        if fits(value, dtype):
            return dtype
    raise type_problem(f"the integer {short_repr(value)} does not fit 64 bits", "use a real number")


def fits(value: int, dtype: Scalar) -> bool:
    """Return True if the integer type holds the value."""
    low, high = dtype.limits
    return low <= value <= high


def common_type(left: Scalar, right: Scalar) -> Scalar:
    """Return the type of a local that is assigned values of both types: the promoted type, or u1 for two booleans."""
    return u1 if left.is_bool and right.is_bool else promote(left, right)


def index_type(dtype: Scalar) -> Scalar:
    """Return the type to which an index of type `dtype` is converted: i32, or i64 for 64-bit types and u32."""
    return i64 if dtype.bits == 64 or dtype.name == "u32" else i32


def as_dtype(value: Any, options: FrontendOptions) -> Scalar | None:
    """Return the scalar type that an object such as `sg.f32`, `float` or `np.int32` denotes, or None if it is none."""
    if isinstance(value, Scalar):
        return value
    for python, dtype in ((int, options.default_ip), (float, options.default_fp), (bool, u1)):
        if value is python:
            return dtype
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        try:
            return from_dtype(np.dtype(value))
        except (KeyError, TypeError):
            return None
    return None


def annotated_dtype(annotation: Any, options: FrontendOptions) -> Scalar | None:
    """Return the scalar type that an annotation, as an object or as text, denotes, or None if it denotes none.

    If the annotation is text, such as "ti.f32", only the part after the last dot is used.
    """
    if not isinstance(annotation, str):
        return as_dtype(annotation, options)
    name = annotation.rpartition(".")[2].strip()
    python = {"int": options.default_ip, "float": options.default_fp, "bool": u1}
    return python.get(name) or SCALARS.get(name)


# ---- binary operators -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BinaryOperator:
    """A `BinaryOperator` describes one binary operator of Python: its IR operation and its rule for types.

    Attributes:
        symbol: the operator in messages.
        op: name of the operation of the IR.
        family: key in `RULES` of the rule that finds the operand type.
        fold: meaning of the operator on Python numbers.
    """

    symbol: str
    op: str
    family: str
    fold: Callable[[Any, Any], Any]


BINARY: Table[type[ast.operator], BinaryOperator] = Table(
    "frontend operators",
    ast.operator.__subclasses__(),
    holes={ast.MatMult: "no scalar operation: `matrices.multiply` makes scalar products of it"},
    about="the operation, the types and the folding of a binary operator of Python",
)
BINARY.update(
    {
        ast.Add: BinaryOperator("+", "add", "number", operator.add),
        ast.Sub: BinaryOperator("-", "sub", "number", operator.sub),
        ast.Mult: BinaryOperator("*", "mul", "number", operator.mul),
        ast.Div: BinaryOperator("/", "div", "real", operator.truediv),
        ast.FloorDiv: BinaryOperator("//", "floordiv", "number", operator.floordiv),
        ast.Mod: BinaryOperator("%", "mod", "number", operator.mod),
        ast.Pow: BinaryOperator("**", "pow", "number", operator.pow),
        ast.BitAnd: BinaryOperator("&", "bit_and", "bits", operator.and_),
        ast.BitOr: BinaryOperator("|", "bit_or", "bits", operator.or_),
        ast.BitXor: BinaryOperator("^", "bit_xor", "bits", operator.xor),
        ast.LShift: BinaryOperator("<<", "bit_shl", "shift", operator.lshift),
        ast.RShift: BinaryOperator(">>", "bit_sar", "shift", operator.rshift),
    }
)

COMPARE: Table[type[ast.cmpop], BinaryOperator] = Table(
    "frontend comparisons",
    ast.cmpop.__subclasses__(),
    holes={c: "compares Python objects; allowed at compile time alone" for c in (ast.Is, ast.IsNot, ast.In, ast.NotIn)},
    about="the operation, the types and the folding of a comparison of Python",
)
COMPARE.update(
    {
        ast.Lt: BinaryOperator("<", "cmp_lt", "compare", operator.lt),
        ast.LtE: BinaryOperator("<=", "cmp_le", "compare", operator.le),
        ast.Gt: BinaryOperator(">", "cmp_gt", "compare", operator.gt),
        ast.GtE: BinaryOperator(">=", "cmp_ge", "compare", operator.ge),
        ast.Eq: BinaryOperator("==", "cmp_eq", "compare", operator.eq),
        ast.NotEq: BinaryOperator("!=", "cmp_ne", "compare", operator.ne),
    }
)

RULES: dict[str, Callable[[BinaryOperator, Scalar, Scalar, FrontendOptions], Scalar]] = {}
"""For each family, a rule computes the type that both operands take."""


def operand_type(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    """Return the type to which both operands of a binary operator are converted.

    Raises:
        ProblemError: the operator does not take these types.
    """
    return RULES[row.family](row, left, right, options)


def operation(row: BinaryOperator, dtype: Scalar) -> str:
    """Return the name of the IR operation for an operator on operands of a type; unsigned `>>` shifts in zeros."""
    return "bit_shr" if row.op == "bit_sar" and dtype.kind == "u" else row.op


def _number(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    return options.default_ip if left.is_bool and right.is_bool else promote(left, right)


def _real(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    common = promote(left, right)
    return common if common.is_real else options.default_fp


def _bits(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    for side in (left, right):
        if side.is_real:
            raise type_problem(
                f"`{row.symbol}` works on integers and booleans, not on {side}",
                "convert with `int(...)`, or write `and`, `or` between conditions",
            )
    return common_type(left, right)


def _shift(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    for side in (left, right):
        if not side.is_int:
            raise type_problem(f"`{row.symbol}` shifts integers, not {side}", "convert with `int(...)`")
    return left


def _compare(row: BinaryOperator, left: Scalar, right: Scalar, options: FrontendOptions) -> Scalar:
    return common_type(left, right)


RULES.update(number=_number, real=_real, bits=_bits, shift=_shift, compare=_compare)


def fold(row: BinaryOperator, left: Any, right: Any) -> Any:
    """Return the result of an operator on Python numbers, as Python computes it.

    Raises:
        ProblemError: the computation fails, or the result is too large or complex.
    """
    if row.op in ("pow", "bit_shl") and isinstance(right, int) and abs(right) > 4096 and isinstance(left, int):
        raise type_problem(f"the constant {left} {row.symbol} {right} is too large", "use a real number")
    try:
        made = row.fold(left, right)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise type_problem(
            f"the constant expression {left} {row.symbol} {right} fails: {error}", "correct it"
        ) from None
    if isinstance(made, complex):
        raise type_problem(f"the constant expression {left} {row.symbol} {right} is complex", "use real numbers")
    return made


# ---- unary operators ------------------------------------------------------------------------------------------

UNARY: Table[type[ast.unaryop], Callable[[Any], Any]] = Table(
    "frontend unary operators", ast.unaryop.__subclasses__(), about="the folding of a unary operator of Python"
)
UNARY.update({ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_})


def check_unary(op: ast.unaryop, dtype: Scalar) -> None:
    """Raise ProblemError if the unary operator does not take this type."""
    if isinstance(op, ast.Invert) and dtype.is_real:
        raise type_problem(f"`~` works on integers and booleans, not on {dtype}", "convert with `int(...)`")
    if isinstance(op, (ast.USub, ast.UAdd)) and dtype.is_bool:
        raise type_problem("a boolean has no sign", "convert it with `int(...)`, or write `not` to invert it")


def check_condition(dtype: Scalar) -> None:
    """Raise ProblemError if a value of this type cannot be a condition."""
    if dtype.is_real:
        raise type_problem(f"a condition is a boolean or an integer, not {dtype}", "compare it, as in `x != 0.0`")


def check_index(dtype: Scalar) -> None:
    """Raise ProblemError if a value of this type cannot be an index."""
    if not dtype.is_int:
        raise type_problem(f"an index is an integer, not {dtype}", "convert it with `int(...)`")


def check_bound(dtype: Scalar) -> None:
    """Raise ProblemError if a value of this type cannot be a bound of a loop."""
    if not dtype.is_int:
        raise type_problem(
            f"the bound of a loop is an integer, not {dtype}", "convert it with `int(...)` or `sg.cast(..., sg.i32)`"
        )


def not_numeric(operand: Operand) -> Exception:
    """Return the error for an operand that is used as a number and is none."""
    cure = "use a number, or an element as in `x[i]`"
    if isinstance(operand, MatrixValue):
        cure = "use one entry, as in `v[0]`; to convert all of them, write `v.cast(sg.f64)`"
    elif isinstance(operand, StructValue):
        cure = f"use a member: {', '.join(operand.members)}"
    elif isinstance(operand, Static) and isinstance(operand.value, np.ndarray):
        cure = "index it, or copy it into a field with `from_numpy`: constant vectors hold at most 64 numbers"
    return type_problem(f"a number is expected here, not {describe(operand)}", cure)
