"""This module emits building blocks of inlined math functions: multiply-add, polynomials, rounding, powers of two.

`mad` is one rounding where the machine has fused multiply-add and two where it has not. Code that needs a product to be
exact does not rely on it: see `two_product` and the short constants of the range reductions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import ir
from ..emit import ArithEmitter
from ..types import bits_type, element, mantissa_bits, suffix
from .coefficients import COEFFICIENTS, CONSTANTS


@dataclass(frozen=True)
class FloatFormat:
    """Represent the bit layout of a real type: its width and the number of its mantissa bits.

    Attributes:
        mantissa: Number of stored digits.
        width: Number of bits of the type.
    """

    mantissa: int
    width: int

    @property
    def bias(self) -> int:
        """Return the exponent bias of the format."""
        return (1 << (self.width - self.mantissa - 2)) - 1

    @property
    def least_normal(self) -> float:
        """Return the least positive normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def one(self) -> int:
        """Return the bit pattern of 1.0 as an integer."""
        return self.bias << self.mantissa

    @property
    def rounder(self) -> float:
        """Return 1.5·2^mantissa; adding it to x leaves x, rounded to an integer, in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def rounder_bits(self) -> int:
        """Return the bit pattern of the constant `rounder` as an integer."""
        return ((self.bias + self.mantissa) << self.mantissa) | 1 << (self.mantissa - 1)


_FORMATS = {"f32": FloatFormat(23, 32), "f64": FloatFormat(52, 64)}


def kind(x: ir.LLVMValue) -> str:
    """Return "f32" or "f64", the type of x, which is the key of the tables of constants."""
    return suffix(element(x.type))


def format_of(x: ir.LLVMValue) -> FloatFormat:
    """Return the FloatFormat, that is, the bit layout, of the type of x."""
    return _FORMATS[kind(x)]


def constants(name: str, x: ir.LLVMValue) -> tuple[float, ...]:
    """Return the named constant for the type of x, as a tuple of numbers whose sum approximates it."""
    return CONSTANTS[name][kind(x)]


def mad(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue, z: ir.LLVMValue) -> ir.LLVMValue:
    """Return x·y + z."""
    if e.m.target.fused or e.m.target.contracts:
        return e.intrinsic("fma", x, y, z)
    return e.b.fadd(e.b.fmul(x, y), z)


def scaled(e: ArithEmitter, x: ir.LLVMValue, factor: float, more: ir.LLVMValue) -> ir.LLVMValue:
    """Return x·factor + more, where `factor` is a constant."""
    return mad(e, x, e.const(x, factor), more)


def horner(e: ArithEmitter, x: ir.LLVMValue, coefficients: Sequence[float]) -> ir.LLVMValue:
    """Return the value at x of the polynomial with these coefficients, of which the lowest comes first."""
    # Other lanes fill the time that each step waits for the last one.
    total: ir.LLVMValue = e.const(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = mad(e, total, x, e.const(x, c))
    return total


def polynomial(e: ArithEmitter, name: str, x: ir.LLVMValue, skip: int = 0) -> ir.LLVMValue:
    """Return the value at x of the named polynomial, without its `skip` lowest terms and divided by x^skip."""
    return horner(e, x, COEFFICIENTS[name][kind(x)][skip:])


def round_to_integer(
    e: ArithEmitter, x: ir.LLVMValue, factor: float, offset: float = 0.0
) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (n, total): n is the integer nearest to x·factor + offset, and total holds n in its low bits.

    n may be the second nearest where both are almost equally near. |n| < 2^(mantissa - 1).
    """
    big = e.const(x, format_of(x).rounder)
    if offset:
        total = e.b.fadd(scaled(e, x, factor, e.const(x, offset)), big)
    else:
        total = scaled(e, x, factor, big)
    return e.b.fsub(total, big), total


def bits(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the bits of a real as an integer."""
    return e.b.bitcast(x, bits_type(x.type))


def real(e: ArithEmitter, word: ir.LLVMValue, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the real of x's type that has the given bits."""
    return e.b.bitcast(word, x.type)


def sign_if_odd(e: ArithEmitter, total: ir.LLVMValue) -> ir.LLVMValue:
    """Return a word with the sign bit set if the integer in the low bits of `total` is odd, else 0."""
    word = bits(e, total)
    return e.b.shl(word, e.const(word, format_of(total).width - 1))


def flip(e: ArithEmitter, x: ir.LLVMValue, sign: ir.LLVMValue) -> ir.LLVMValue:
    """Return x with its sign flipped where `sign` has the sign bit."""
    return real(e, e.b.xor(bits(e, x), sign), x)


def two_to(e: ArithEmitter, total: ir.LLVMValue) -> ir.LLVMValue:
    """Return 2^n for the integer n in the low bits of `total`, where 2^n must be a normal number."""
    f = format_of(total)
    word = bits(e, total)
    biased = e.b.sub(word, e.const(word, f.rounder_bits - f.bias))
    return real(e, e.b.shl(biased, e.const(word, f.mantissa)), total)


def times_two_to(e: ArithEmitter, x: ir.LLVMValue, total: ir.LLVMValue) -> ir.LLVMValue:
    """Return x·2^n for the integer n in the low bits of `total`."""
    f = format_of(total)
    word = bits(e, total)
    both = e.b.sub(word, e.const(word, f.rounder_bits - 2 * f.bias))
    # The power is made of two factors, because n may lie beyond the exponents at both ends.
    first = e.b.lshr(both, e.const(word, 1))
    for biased in (first, e.b.sub(both, first)):
        x = e.b.fmul(x, real(e, e.b.shl(biased, e.const(word, f.mantissa)), x))
    return x


def clamp(e: ArithEmitter, x: ir.LLVMValue, low: float, high: float) -> ir.LLVMValue:
    """Return x moved into the interval; NaN stays."""
    x = e.b.select(e.b.fcmp_ordered("<", x, e.const(x, low)), e.const(x, low), x)
    return e.b.select(e.b.fcmp_ordered(">", x, e.const(x, high)), e.const(x, high), x)


def two_product(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (p, q) with p the rounded product and p + q the exact one, away from overflow and underflow."""
    product = e.b.fmul(x, y)
    if e.m.target.fused:
        return product, e.intrinsic("fma", x, y, e.b.fneg(product))
    (x1, x0), (y1, y0) = _halves(e, x), _halves(e, y)
    b = e.b
    rest = b.fsub(b.fmul(x1, y1), product)
    rest = b.fadd(b.fadd(rest, b.fmul(x1, y0)), b.fmul(x0, y1))
    return product, b.fadd(rest, b.fmul(x0, y0))


def _halves(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Split x into an upper and a lower half of its digits, so short that products of two halves are exact.

    Source: Veltkamp's splitting.
    """
    spread = e.b.fmul(x, e.const(x, 2.0 ** ((mantissa_bits(x.type) + 2) // 2) + 1))
    upper = e.b.fsub(spread, e.b.fsub(spread, x))
    return upper, e.b.fsub(x, upper)


def two_sum(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (s, r) with s the rounded sum and s + r the exact one, for |x| >= |y| or x = 0."""
    total = e.b.fadd(x, y)
    return total, e.b.fsub(y, e.b.fsub(total, x))
