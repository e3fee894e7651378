"""This module holds the table DUAL: the value and the partial derivatives of each operation, on single scalars.

Integers are Python ints, exact until `fit` wraps them. Reals are NumPy float64 scalars, whose operators follow IEEE and
do not raise. The partial derivatives are written out in this table and taken from nowhere else, so that they are an
independent judgment. At singular points the table keeps the conventions of the language (docs/reverse_mode.md): the
right operand takes a tie of min and max, x^0 is constant in x and 0^y in y, abs'(0) = 0, and a slope that is infinite
is infinite.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compiler.ir.ops import OPS
from ....compiler.ir.table import Table
from ....compiler.ir.types import Scalar


@dataclass(frozen=True)
class DualOperation:
    """Represent an operation of the IR by its value and its partial derivatives on single scalars.

    Attributes:
        value: value(t, *operands) returns the result; t is the type of the first operand.
        partials: for each operand its derivative as a function of (*operands, result); empty if all are zero.
    """

    value: Callable[..., Any]
    partials: tuple[Callable[..., Any], ...] = ()


DUAL: Table[str, DualOperation] = Table(
    "DUAL",
    OPS,
    about="value and partial derivatives on one scalar, for the oracle of dual numbers",
    blank="DualOperation({todo}, ({todo},) * {arity})",
)


def fit(value: Any, dtype: Scalar) -> Any:
    """Convert the result of an operation to its type: a real to float64, an integer to its width by wrapping."""
    if dtype.is_real:
        return np.float64(value)
    return bool(value) if dtype.is_bool else wrap(int(value), dtype)


def wrap(value: int, dtype: Scalar) -> int:
    """Return the low bits of an integer, read in two's complement."""
    low = value & _ones(dtype)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


def _ones(dtype: Scalar) -> int:
    return (1 << dtype.bits) - 1


# ---- values that need more than an expression ---------------------------------------------------------------


def _pow(t: Scalar, x: Any, y: Any) -> Any:
    if t.is_real:
        return np.float_power(x, y)
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


def _mod(t: Scalar, x: Any, y: Any) -> Any:
    """Return the remainder; for reals x - y floor(x/y) with the exact quotient.

    A rounded quotient could be wrong by one.
    """
    if not t.is_real:
        return x % y
    rest = np.fmod(x, y)
    if rest == 0:
        return math.copysign(0.0, y)
    return rest + y if (rest < 0) != (y < 0) else rest


def _mod_slope(x: Any, y: Any, r: Any) -> Any:
    """Return the slope of r = x mod y with respect to y: -floor(x/y), computed from r where r and y are finite."""
    return np.rint((r - x) / y) if np.isfinite(r) and np.isfinite(y) else -np.floor(x / y)


def _opposite(x: Any) -> Any:
    """Return sqrt(1 - x²), computed so that the result is exactly 0 at x = 1 and x = -1."""
    return np.sqrt((1 - x) * (1 + x))


def _frexp(x: Any) -> tuple[Any, int]:
    return math.frexp(x) if math.isfinite(x) else (x, 0)


def _sign(x: Any) -> Any:
    return x if x != x else (x > 0) * 1.0 - (x < 0) * 1.0


def _lesser(x: Any, y: Any) -> bool:
    """Return True if x is less than y, where -0.0 counts as less than 0.0."""
    return bool(x < y or (x == y and math.copysign(1, x) < math.copysign(1, y)))


def _min(t: Scalar, x: Any, y: Any) -> Any:
    return x + y if x != x or y != y else x if _lesser(x, y) else y


def _max(t: Scalar, x: Any, y: Any) -> Any:
    return x + y if x != x or y != y else x if _lesser(y, x) else y


def _sar(t: Scalar, x: int, n: int) -> int:
    signed = Scalar("", "i", t.bits)
    return wrap(x, signed) >> (n % t.bits)


def _bits(t: Scalar, x: int) -> str:
    return format(x & _ones(t), f"0{t.bits}b")


# ---- the table ----------------------------------------------------------------------------------------------


_ONE, _MINUS = (lambda *_: 1.0), (lambda *_: -1.0)

DUAL.update(
    {
        "neg": DualOperation(lambda t, x: -x, (_MINUS,)),
        "abs": DualOperation(lambda t, x: abs(x), (lambda x, r: _sign(x),)),
        "sgn": DualOperation(lambda t, x: _sign(x)),
        "floor": DualOperation(lambda t, x: np.floor(x)),
        "ceil": DualOperation(lambda t, x: np.ceil(x)),
        "round": DualOperation(lambda t, x: np.rint(x)),
        "sqrt": DualOperation(lambda t, x: np.sqrt(x), (lambda x, r: 0.5 / r,)),
        "rsqrt": DualOperation(lambda t, x: 1 / np.sqrt(x), (lambda x, r: -0.5 * r * r * r,)),
        "inv": DualOperation(lambda t, x: 1 / x, (lambda x, r: -r * r,)),
        "rcp": DualOperation(lambda t, x: 1 / x, (lambda x, r: -r * r,)),
        "exp": DualOperation(lambda t, x: np.exp(x), (lambda x, r: r,)),
        "log": DualOperation(lambda t, x: np.log(x), (lambda x, r: 1 / x,)),
        "sin": DualOperation(lambda t, x: np.sin(x), (lambda x, r: np.cos(x),)),
        "cos": DualOperation(lambda t, x: np.cos(x), (lambda x, r: -np.sin(x),)),
        "tan": DualOperation(lambda t, x: np.tan(x), (lambda x, r: 1 + r * r,)),
        "asin": DualOperation(lambda t, x: np.arcsin(x), (lambda x, r: 1 / _opposite(x),)),
        "acos": DualOperation(lambda t, x: np.arccos(x), (lambda x, r: -1 / _opposite(x),)),
        "tanh": DualOperation(lambda t, x: np.tanh(x), (lambda x, r: 1 / np.cosh(x) ** 2,)),
        "frexp_mantissa": DualOperation(lambda t, x: _frexp(x)[0], (lambda x, r: r / x if x != 0 else 1.0,)),
        "frexp_exponent": DualOperation(lambda t, x: _frexp(x)[1]),
        "bit_not": DualOperation(lambda t, x: not x if t.is_bool else ~x),
        "logic_not": DualOperation(lambda t, x: not x),
        "popcnt": DualOperation(lambda t, x: _bits(t, x).count("1")),
        "clz": DualOperation(lambda t, x: (_bits(t, x) + "1").index("1")),
        "ffs": DualOperation(lambda t, x: _bits(t, x)[::-1].find("1") + 1),
        "add": DualOperation(lambda t, x, y: x + y, (_ONE, _ONE)),
        "sub": DualOperation(lambda t, x, y: x - y, (_ONE, _MINUS)),
        "mul": DualOperation(lambda t, x, y: x * y, (lambda x, y, r: y, lambda x, y, r: x)),
        "div": DualOperation(lambda t, x, y: x / y, (lambda x, y, r: 1 / y, lambda x, y, r: -r / y)),
        "floordiv": DualOperation(lambda t, x, y: np.floor(x / y) if t.is_real else x // y),
        "mod": DualOperation(_mod, (_ONE, _mod_slope)),
        "pow": DualOperation(
            _pow,
            (
                lambda x, y, r: y * np.float_power(x, y - 1) if y != 0 else 0.0,
                lambda x, y, r: np.log(x) * r if x != 0 else 0.0,
            ),
        ),
        "atan2": DualOperation(
            lambda t, y, x: np.arctan2(y, x),
            (lambda y, x, r: x / (x * x + y * y), lambda y, x, r: -y / (x * x + y * y)),
        ),
        "min": DualOperation(_min, (lambda x, y, r: x < y, lambda x, y, r: not x < y)),
        "max": DualOperation(_max, (lambda x, y, r: x > y, lambda x, y, r: not x > y)),
        "bit_and": DualOperation(lambda t, x, y: x & y),
        "bit_or": DualOperation(lambda t, x, y: x | y),
        "bit_xor": DualOperation(lambda t, x, y: x ^ y),
        "unique": DualOperation(lambda t, x, y: x),
        "bit_shl": DualOperation(lambda t, x, n: x << (n % t.bits)),
        "bit_shr": DualOperation(lambda t, x, n: (x & _ones(t)) >> (n % t.bits)),
        "bit_sar": DualOperation(_sar),
        "cmp_lt": DualOperation(lambda t, x, y: x < y),
        "cmp_le": DualOperation(lambda t, x, y: x <= y),
        "cmp_gt": DualOperation(lambda t, x, y: x > y),
        "cmp_ge": DualOperation(lambda t, x, y: x >= y),
        "cmp_eq": DualOperation(lambda t, x, y: x == y),
        "cmp_ne": DualOperation(lambda t, x, y: x != y),
        "logical_and": DualOperation(lambda t, x, y: x and y),
        "logical_or": DualOperation(lambda t, x, y: x or y),
        "select": DualOperation(
            lambda t, c, x, y: x if c else y, (_MINUS, lambda c, x, y, r: c, lambda c, x, y, r: not c)
        ),
    }
)


def apply(name: str, types: tuple[Scalar, ...], result: Scalar, args: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Apply an operation to (value, tangent) pairs, and return the value and the tangent of the result.

    The tangent is dr = sum of dr/dx_i dx_i, where a zero dx_i adds nothing.

    Args:
        name: the operation.
        types: the types of the operands.
        result: the type of the result.
        args: the (value, tangent) pairs of the operands.

    Returns:
        The (value, tangent) pair of the result.
    """
    row = DUAL[name]
    operands = [value for value, _ in args]
    value = fit(row.value(types[0], *operands), result)
    tangent = np.float64(0.0)
    for partial, (_, given) in zip(row.partials, args):
        # A zero tangent adds nothing even where the slope is infinite; 0 * inf would be NaN.
        if given != 0 and result.is_real:
            tangent += np.float64(partial(*operands, value)) * given
    return value, tangent


# ---- conversions --------------------------------------------------------------------------------------------


def cast(value: Any, source: Scalar, target: Scalar) -> Any:
    """Convert a number: real to integer truncates and saturates, NaN becomes 0, to boolean tests for non-zero."""
    if target.is_bool:
        return bool(value != 0)
    if not (source.is_real and target.is_int):
        return fit(value, target)
    lowest = -(1 << (target.bits - 1)) if target.is_signed else 0
    highest = lowest + _ones(target)
    if not math.isfinite(value):
        return 0 if value != value else highest if value > 0 else lowest
    return min(max(int(value), lowest), highest)


_CODES = {
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "u1": "?",
}


def bit_cast(value: Any, source: Scalar, target: Scalar) -> Any:
    """Return the bits of a value, rounded to its type, read as another type of the same width.

    A cast to the type of the value itself returns the value unchanged.
    """
    if source == target:
        return value
    rounded = source(float(value)) if source.is_real else value
    return fit(struct.unpack("<" + _CODES[target.name], struct.pack("<" + _CODES[source.name], rounded))[0], target)
