"""Define the result of every scalar operation and conversion in NumPy; the table NUMPY has an entry for each.

An entry works on arrays of the operand dtypes (any shape, 0-d too, broadcast against each other) and returns an array
of the result dtype. NumPy's own meaning is used only where it is the IR's: wraparound, divisions by zero, shift counts,
NaN and signed zeros are spelled out. f16 is computed in f32 and rounded; transcendental f32 is computed in f64 and
rounded, so that the result is nearly always the correctly rounded one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler.ir.ops import OPS, result_type
from ..compiler.ir.table import Table
from ..compiler.ir.types import Scalar

LaneArray = npt.NDArray[Any]
Meaning = Callable[..., LaneArray]
Number = float | int | bool

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class ScalarMeaning:
    """Hold two functions for one operation: its results in release builds, and the lanes in which it traps.

    A call of this object suppresses NumPy's warnings; a call of `meaning` or `traps` does not.
    """

    meaning: Meaning
    traps: Meaning | None = None

    def __call__(self, *args: LaneArray) -> LaneArray:
        """Return the operation's results for these operands, with NumPy's warnings suppressed."""
        with np.errstate(all="ignore"):
            return self.meaning(*args)


NUMPY: Table[str, ScalarMeaning] = Table(
    "reference.scalar",
    OPS,
    about="the meaning: a function of NumPy arrays, and the lanes that trap",
    blank="ScalarMeaning({todo})",
)


def _row(*names: str) -> Callable[[Meaning], Meaning]:
    def add(meaning: Meaning) -> Meaning:
        for name in names:
            NUMPY[name] = ScalarMeaning(meaning)
        return meaning

    return add


# ---- precision ----------------------------------------------------------------------------------------------


def _in_f32(meaning: Meaning) -> Meaning:
    """Return a function that applies `meaning` to f16 operands in f32 with rounding, and to other operands directly."""

    def widened(*args: LaneArray) -> LaneArray:
        if args[0].dtype == F16:
            return meaning(*(a.astype(F32) for a in args)).astype(F16)
        return meaning(*args)

    return widened


def _in_f64(meaning: Meaning) -> Meaning:
    """Return a function that computes a transcendental operation in f64 and rounds the result to the operands' type."""

    def widened(*args: LaneArray) -> LaneArray:
        dtype = args[0].dtype
        if dtype == F64:
            return meaning(*args)
        rounded = meaning(*(a.astype(F64) for a in args)).astype(F32)
        return rounded if dtype == F32 else rounded.astype(F16)

    return widened


def _by_kind(real: Meaning, integer: Meaning) -> Meaning:
    def either(*args: LaneArray) -> LaneArray:
        return real(*args) if args[0].dtype.kind == "f" else integer(*args)

    return either


# ---- real functions -----------------------------------------------------------------------------------------


def _rsqrt(x: LaneArray) -> LaneArray:
    return 1.0 / np.sqrt(x)


def _inv(x: LaneArray) -> LaneArray:
    inverse: LaneArray = np.divide(x.dtype.type(1), x)
    return inverse


_EXACT: dict[str, Meaning] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "inv": _inv,
    "rcp": _inv,
    "div": np.divide,
}
_TRANSCENDENTAL: dict[str, Meaning] = {
    "rsqrt": _rsqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "tanh": np.tanh,
    "atan2": np.arctan2,
}
NUMPY.update({name: ScalarMeaning(_in_f32(meaning)) for name, meaning in _EXACT.items()})
NUMPY.update({name: ScalarMeaning(_in_f64(meaning)) for name, meaning in _TRANSCENDENTAL.items()})


@_row("frexp_mantissa")
def _frexp_mantissa(x: LaneArray) -> LaneArray:
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


@_row("frexp_exponent")
def _frexp_exponent(x: LaneArray) -> LaneArray:
    """Return the exponents that frexp computes; those of NaN and infinities are 0."""
    return np.where(np.isfinite(x), np.frexp(x)[1], np.int32(0))


# ---- arithmetic ---------------------------------------------------------------------------------------------

NUMPY["neg"] = ScalarMeaning(np.negative)
NUMPY["abs"] = ScalarMeaning(np.absolute)
NUMPY["add"] = ScalarMeaning(_in_f32(np.add))
NUMPY["sub"] = ScalarMeaning(_in_f32(np.subtract))
NUMPY["mul"] = ScalarMeaning(_in_f32(np.multiply))


@_row("sgn")
def _sgn(x: LaneArray) -> LaneArray:
    """Return the sign of each value as -1, 0 or 1; NaN stays NaN, and both zeros give +0."""
    sign = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)
    return np.where(x != x, x, sign)


def _zero_divisor(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return True for the lanes in which the divisor of an integer division is 0."""
    return np.broadcast_to((y == 0) if y.dtype.kind != "f" else np.False_, np.broadcast_shapes(x.shape, y.shape))


def _safe_divisor(y: LaneArray) -> LaneArray:
    """Return the divisors with each 0 replaced by 1, so that a division never fails."""
    return np.where(y == 0, y.dtype.type(1), y)


def _int_floordiv(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the floor of an integer quotient, or 0 where the divisor is 0."""
    quotient = np.floor_divide(x, _safe_divisor(y))
    # Division by -1 is a negation, which wraps at the least value.
    if x.dtype.kind == "i":
        quotient = np.where(y == -1, np.negative(x), quotient)
    return np.where(y == 0, x.dtype.type(0), quotient)


def _int_mod(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the integer remainder with the sign of y; it is 0 where y is 0 or -1."""
    # A division by -1 could overflow.
    trivial = (y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0
    divisor = np.where(trivial, y.dtype.type(1), y)
    return np.where(trivial, x.dtype.type(0), np.remainder(x, divisor))


def _real_floordiv(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the floor of the rounded quotient x/y."""
    return np.floor(np.divide(x, y))


def _real_mod(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the exact value of x - y·floor(x/y), rounded once; a zero result has the sign of y."""
    rest = np.fmod(x, y)
    wrong = (rest != 0) & (np.signbit(rest) != np.signbit(y))
    rest = np.where(wrong, rest + y, rest)
    return np.where(rest == 0, np.copysign(x.dtype.type(0), y), rest)


NUMPY["floordiv"] = ScalarMeaning(_by_kind(_in_f32(_real_floordiv), _int_floordiv), _zero_divisor)
NUMPY["mod"] = ScalarMeaning(_by_kind(_in_f32(_real_mod), _int_mod), _zero_divisor)


def _int_pow(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return an integer to an integer power, by squaring with wraparound; negative powers are truncated to integers.

    x^-n is 1/x^n truncated: ±1 for x = ±1, else 0, also for x = 0.
    """
    base, power = np.broadcast_arrays(x, y)
    one = x.dtype.type(1)
    negative = power < 0
    odd = (power & one) != 0
    inverse = np.where(base == 1, base, np.where((base != 0) & (base == -1), np.where(odd, base, one), one - one))
    left = np.where(negative, one - one, power)
    product = np.full(base.shape, one)
    while left.any():
        product = np.where((left & one) != 0, product * base, product)
        base = base * base
        left = left >> one
    return np.where(negative, inverse, product)


NUMPY["pow"] = ScalarMeaning(_by_kind(_in_f64(np.power), _int_pow))


@_row("min")
def _min(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the minimum; NaN is passed on, and -0.0 is less than 0.0."""
    least = np.minimum(x, y)
    return least if x.dtype.kind != "f" else np.where(x == y, np.where(np.signbit(x), x, y), least)


@_row("max")
def _max(x: LaneArray, y: LaneArray) -> LaneArray:
    most = np.maximum(x, y)
    return most if x.dtype.kind != "f" else np.where(x == y, np.where(np.signbit(x), y, x), most)


# ---- bits ---------------------------------------------------------------------------------------------------


def _unsigned(x: LaneArray) -> LaneArray:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _count(bits: LaneArray) -> LaneArray:
    """Return the number of set bits in each u64 lane."""
    one, two, four = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
    bits = bits - ((bits >> np.uint64(1)) & one)
    bits = (bits & two) + ((bits >> np.uint64(2)) & two)
    bits = (bits + (bits >> np.uint64(4))) & four
    return ((bits * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int32)


def _bits64(x: LaneArray) -> LaneArray:
    return _unsigned(x).astype(np.uint64)


@_row("popcnt")
def _popcnt(x: LaneArray) -> LaneArray:
    return _count(_bits64(x))


@_row("clz")
def _clz(x: LaneArray) -> LaneArray:
    """Return the number of leading zero bits of an integer."""
    bits = _bits64(x)
    for shift in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits >> np.uint64(shift))
    return np.int32(8 * x.dtype.itemsize) - _count(bits)


@_row("ffs")
def _ffs(x: LaneArray) -> LaneArray:
    """Return 1 plus the position of the lowest set bit, or 0 if no bit is set."""
    bits = _bits64(x)
    return np.where(bits == 0, np.int32(0), _count((bits - np.uint64(1)) & ~bits) + np.int32(1))


def _shift_count(x: LaneArray, y: LaneArray) -> LaneArray:
    """Return the shift count modulo the number of bits of the shifted type."""
    count: LaneArray = _unsigned(y) & _unsigned(y).dtype.type(8 * x.dtype.itemsize - 1)
    return count


@_row("bit_shl")
def _shl(x: LaneArray, y: LaneArray) -> LaneArray:
    return np.left_shift(_unsigned(x), _shift_count(x, y)).view(x.dtype)


@_row("bit_shr")
def _shr(x: LaneArray, y: LaneArray) -> LaneArray:
    return np.right_shift(_unsigned(x), _shift_count(x, y)).view(x.dtype)


@_row("bit_sar")
def _sar(x: LaneArray, y: LaneArray) -> LaneArray:
    signed = np.dtype(f"i{x.dtype.itemsize}")
    shifted: LaneArray = np.right_shift(x.view(signed), _shift_count(x, y).astype(signed)).view(x.dtype)
    return shifted


NUMPY["bit_not"] = ScalarMeaning(np.invert)
NUMPY["bit_and"] = ScalarMeaning(np.bitwise_and)
NUMPY["bit_or"] = ScalarMeaning(np.bitwise_or)
NUMPY["bit_xor"] = ScalarMeaning(np.bitwise_xor)
NUMPY["unique"] = ScalarMeaning(lambda x, y: np.broadcast_arrays(x, y)[0].copy())
NUMPY["logic_not"] = ScalarMeaning(np.logical_not)
NUMPY["logical_and"] = ScalarMeaning(np.logical_and)
NUMPY["logical_or"] = ScalarMeaning(np.logical_or)
NUMPY["cmp_lt"] = ScalarMeaning(np.less)
NUMPY["cmp_le"] = ScalarMeaning(np.less_equal)
NUMPY["cmp_gt"] = ScalarMeaning(np.greater)
NUMPY["cmp_ge"] = ScalarMeaning(np.greater_equal)
NUMPY["cmp_eq"] = ScalarMeaning(np.equal)
NUMPY["cmp_ne"] = ScalarMeaning(np.not_equal)
NUMPY["select"] = ScalarMeaning(np.where)


# ---- conversions --------------------------------------------------------------------------------------------


def cast(array: LaneArray, source: Scalar, target: Scalar) -> LaneArray:
    """Convert numbers from dtype `source` to dtype `target`; this never traps.

    Real to integer truncates and saturates, NaN gives 0; integer to integer keeps the low bits; to u1 tests for
    non-zero; anything to f16 goes through f32.
    """
    with np.errstate(all="ignore"):
        return convert(array, source, target)


def convert(array: LaneArray, source: Scalar, target: Scalar) -> LaneArray:
    """Convert numbers like `cast`, but without suppressing NumPy's warnings."""
    if source == target:
        return array
    if target.is_bool:
        truth: LaneArray = np.not_equal(array, array.dtype.type(0))
        return truth
    if source.is_real and target.is_int:
        return _saturate(array, target)
    if target.dtype == F16:
        array = array.astype(F32)
    return array.astype(target.dtype)


def _saturate(array: LaneArray, target: Scalar) -> LaneArray:
    """Truncate reals to integers, limited to the range of the target type; NaN becomes 0."""
    make = target.dtype.type
    info = np.iinfo(target.dtype)
    # The limits are powers of two (or zero), so they are exact in f64.
    low, limit = float(info.min), math.ldexp(1.0, target.bits - target.is_signed)
    whole = np.trunc(array.astype(F64))
    inside = np.where((whole >= low) & (whole < limit), whole, 0.0).astype(target.dtype)
    inside = np.where(whole >= limit, make(info.max), inside)
    return np.where(whole < low, make(info.min), inside)


def bit_cast(array: LaneArray, source: Scalar, target: Scalar) -> LaneArray:
    """Return the same bits under another type of equal width; raise ValueError if the widths differ."""
    if source.bits != target.bits:
        raise ValueError(f"bit_cast from {source} to {target}: {source.bits} bits are not {target.bits}")
    return array.view(target.dtype)


# ---- constants ----------------------------------------------------------------------------------------------


def evaluate(op: str, *args: Number, types: tuple[Scalar, ...]) -> Number | None:
    """Return the result of an operation on Python numbers of the given operand types, or None if it would trap.

    Raises ValueError if the operation does not take these types.
    """
    if result_type(op, types) is None:
        raise ValueError(f"{op} does not take ({', '.join(str(t) for t in types)})")
    row = NUMPY[op]
    operands: list[Any] = [t.dtype.type(a) for a, t in zip(args, types, strict=True)]
    with np.errstate(all="ignore"):
        if row.traps is not None and row.traps(*operands).any():
            return None
        return _python(row.meaning(*operands))


def evaluate_cast(value: Number, source: Scalar, target: Scalar) -> Number:
    """Return one Python number converted from dtype `source` to dtype `target`."""
    return _python(cast(source.dtype.type(value), source, target))


def evaluate_bit_cast(value: Number, source: Scalar, target: Scalar) -> Number:
    """Return one Python number with its bits reinterpreted in another type of equal width."""
    return _python(bit_cast(source.dtype.type(value), source, target))


def _python(array: LaneArray) -> Number:
    """Return a 0-d array as a Python number; every NaN becomes `math.nan`."""
    number: Number = np.asarray(array).item()
    return math.nan if number != number else number
