"""This module emits sin, cos and tan of large arguments by the integer range reduction of Payne and Hanek.

f32 arguments come this way only on devices without f64. |x| = m·2^E with 53 bits of m. Those words of 2/pi are skipped
whose product with m·2^E is a multiple of 4 quarter turns. The next seven words leave an error below 2^-140 of a turn,
while no f64 comes closer than 2^-62 to a multiple of pi/2.

Source: Payne and Hanek, Radian reduction for trigonometric functions, 1983.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from ..codegen import ir
from ..codegen.polynomials.evaluate import format_of, polynomial
from ..codegen.types import F64
from . import access
from .code import I32, I64
from .emit import ArithEmitter
from .module import SpirvValue

WORDS = 7
"""Number of words of 2/pi that take part in a product."""

_ZEROS = 2
"""Number of words of zeros before the first word of 2/pi, for arguments below 2^53."""

_LAST = (971 - 2 + 32 * _ZEROS) // 32 + WORDS


@cache
def two_over_pi() -> tuple[int, ...]:
    """Return the binary digits of 2/pi in words of 32 bits, after two words of zeros."""
    bits = 32 * _LAST + 64
    one = 1 << (bits + 64)

    def inverse_tangent(n: int) -> int:
        total, term, k = 0, one // n, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= n * n
            k += 1
        return total

    # Machin's formula gives pi, with digits to spare.
    pi = 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
    digits = 2 * one * (1 << bits) // pi
    words = tuple((digits >> (bits - 32 * (k + 1))) & 0xFFFFFFFF for k in range(_LAST))
    return (0,) * _ZEROS + words


def write_large(e: ArithEmitter, name: str, x: ir.LLVMValue) -> ir.LLVMValue:
    """Emit sin, cos or tan of a real above the range of the polynomials. The result for infinities is NaN."""
    b = e.b
    arith: Any = e
    quadrant, r = _reduced(e, e.intrinsic("fabs", x))
    square = b.fmul(r, r)
    s = b.fadd(b.fmul(b.fmul(r, square), polynomial(arith, "sin_quarter", square, skip=1)), r)
    c = polynomial(arith, "cos_quarter", square)
    odd = b.trunc(quadrant, ir.I1)
    upper = b.trunc(b.lshr(quadrant, e.word(1)), ir.I1)
    negative = b.fcmp_ordered("<", x, e.const(x, 0.0))
    if name == "tan":
        found, flipped = b.fdiv(b.select(odd, c, s), b.select(odd, s, c)), b.xor(negative, odd)
    elif name == "sin":
        found, flipped = b.select(odd, c, s), b.xor(negative, upper)
    else:
        found, flipped = b.select(odd, s, c), b.xor(odd, upper)
    found = b.select(flipped, b.fneg(found), found)
    return b.select(b.fcmp_ordered("<", e.intrinsic("fabs", x), e.const(x, math.inf)), found, e.const(x, math.nan))


def _reduced(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return a positive number's quarter turns modulo 4, and its remaining angle between -pi/4 and pi/4."""
    b = e.b
    a, low, lowest, _ = _turned(e, x)
    quadrant = b.lshr(a, e.word(62))
    a, low = _shifted(e, a, low, e.word(2)), _shifted(e, low, lowest, e.word(2))
    # A fraction of one half or more counts as the next quarter turn, less a negative rest.
    beyond = b.icmp_signed("<", a, e.word(0))
    quadrant = b.and_(b.add(quadrant, b.zext(beyond, I64)), e.word(3))
    flip = b.sext(beyond, I64)
    a, low = b.xor(a, flip), b.xor(low, flip)
    zeros = e.intrinsic("ctlz", a, e.false(a))
    near = b.icmp_unsigned("==", zeros, e.word(64))
    mantissa = b.select(near, low, _shifted(e, a, low, b.and_(zeros, e.word(63))))
    f = format_of(x)
    power = b.shl(b.sub(e.word(f.bias - 64), zeros), e.word(f.mantissa))
    scale = b.bitcast(power if x.type == F64 else b.trunc(power, I32), x.type)
    turn = b.fmul(b.uitofp(mantissa, x.type), scale)
    r = b.fmul(turn, e.const(x, math.pi / 2))
    return quadrant, b.select(beyond, b.fneg(r), r)


def _shifted(e: ArithEmitter, high: ir.LLVMValue, low: ir.LLVMValue, places: ir.LLVMValue) -> SpirvValue:
    """Return the upper 64 bits of the 128-bit integer high·2^64 + low shifted left by fewer than 64 bits."""
    b = e.b
    # Two shifts, because one shift by 64 places would be undefined where `places` is 0.
    carried = b.lshr(b.lshr(low, e.word(1)), b.sub(e.word(63), places))
    return b.or_(b.shl(high, places), carried)


def _turned(e: ArithEmitter, x: ir.LLVMValue) -> list[ir.LLVMValue]:
    """Return the fractional part of x/(2·pi), the turns of the angle x, as four 64-bit words, highest first."""
    b = e.b
    bits = _bits_of_f64(e, x)
    m = b.or_(b.and_(bits, e.word((1 << 52) - 1)), e.word(1 << 52))
    place = b.add(b.lshr(bits, e.word(52)), e.word(32 * _ZEROS - 1075 - 2))
    first, places = b.lshr(place, e.word(5)), b.and_(place, e.word(31))
    digits = _product(e, m, _window(e, b.and_(first, e.word(63))))
    pairs = [b.or_(b.shl(high, e.word(32)), low) for high, low in zip(digits[::2], [*digits[1::2], e.word(0)])]
    return [_shifted(e, high, low, places) for high, low in zip(pairs, [*pairs[1:], e.word(0)])]


def _bits_of_f64(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the bits of the f64 that is equal to a positive normal number."""
    b = e.b
    if x.type == F64:
        return b.bitcast(x, I64)
    f = format_of(x)
    lifted = b.add(b.zext(b.bitcast(x, I32), I64), e.word((1023 - f.bias) << f.mantissa))
    return b.shl(lifted, e.word(52 - f.mantissa))


def _window(e: ArithEmitter, first: ir.LLVMValue) -> list[ir.LLVMValue]:
    """Return the table entries `first`, `first` + 1, ... of the 32-bit words of 2/pi, each widened to 64 bits."""
    b, e.m.reduces = e.b, True
    # The table stands in memory behind the argument block, because drivers make chains of branches of a constant array.
    with b.at_head():
        table = b.add(access.block_address(b), e.word(e.m.layout.size))
    last = e.word(len(two_over_pi()) - 1)
    found: list[ir.LLVMValue] = []
    for k in range(WORDS):
        at = b.add(first, e.word(k))
        at = b.select(b.icmp_unsigned("<", at, last), at, last)
        found.append(b.zext(access.load(b, b.add(table, b.shl(at, e.word(2))), I32), I64))
    return found


def _product(e: ArithEmitter, m: ir.LLVMValue, words: list[ir.LLVMValue]) -> list[ir.LLVMValue]:
    """Return the product of m and the multiword integer `words` as words of 32 bits, modulo 2^(32·WORDS)."""
    b, low32 = e.b, e.word(0xFFFFFFFF)
    out: list[ir.LLVMValue] = [e.word(0)] * WORDS
    for shift, part in ((0, b.and_(m, low32)), (1, b.lshr(m, e.word(32)))):
        carry: ir.LLVMValue = e.word(0)
        for k in reversed(range(WORDS - shift)):
            total = b.add(b.add(b.mul(part, words[k + shift]), out[k]), carry)
            out[k], carry = b.and_(total, low32), b.lshr(total, e.word(32))
    return out
