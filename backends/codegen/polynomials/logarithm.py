"""This module emits log: it separates the exponent, and applies the series of atanh to the mantissa.

x = 2^k·(1 + f) with 1 + f between sqrt(1/2) and sqrt(2), found by integer arithmetic on the bits. With s = f/(2 + f),
log(1 + f) = 2·atanh(s) = f - (h - s·(h + R(s²))), h = f²/2: the leading term is exact.
"""

from __future__ import annotations

import math
import struct

from .. import ir
from ..emit import ArithEmitter
from .evaluate import bits, constants, format_of, kind, polynomial, real, scaled

_ROOT = {
    "f32": struct.unpack("<i", struct.pack("<f", math.sqrt(0.5)))[0],
    "f64": struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0],
}
"""The bits of sqrt(1/2), by type."""


def split_exponent(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (k as a real, 1 + f) with x = 2^k·(1 + f), for a positive finite x."""
    b, f, root = e.b, format_of(x), _ROOT[kind(x)]
    lift = f.mantissa + 1
    # Subnormal numbers have no leading bit in the exponent field, so they are scaled up first.
    small = b.fcmp_ordered("<", x, e.const(x, f.least_normal))
    word = bits(e, b.select(small, b.fmul(x, e.const(x, 2.0**lift)), x))
    shifted = b.add(word, e.const(word, f.one - root))
    biased = b.lshr(shifted, e.const(word, f.mantissa))
    rest = b.and_(shifted, e.const(word, (1 << f.mantissa) - 1))
    mantissa = real(e, b.add(rest, e.const(word, root)), x)
    offset = 2.0**f.mantissa + f.bias
    lowered = b.select(small, e.const(x, offset + lift), e.const(x, offset))
    held = b.or_(biased, e.const(word, (f.bias + f.mantissa) << f.mantissa))
    return b.fsub(real(e, held, x), lowered), mantissa


def log_of_positive(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return log(x) of a positive finite x; any other x gives an arbitrary number."""
    b = e.b
    k, mantissa = split_exponent(e, x)
    f = b.fsub(mantissa, e.const(x, 1.0))
    s = b.fdiv(f, b.fadd(f, e.const(f, 2.0)))
    z = b.fmul(s, s)
    h = b.fmul(b.fmul(f, f), e.const(f, 0.5))
    tail = b.fmul(s, b.fadd(h, b.fmul(z, polynomial(e, "log", z))))
    high, low = constants("ln2", x)
    inner = b.fsub(h, scaled(e, k, low, tail))
    return scaled(e, k, high, b.fsub(f, inner))


def log(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the natural logarithm of x: -inf for zeros, NaN for negative numbers; infinity and NaN stay."""
    b, zero, infinite = e.b, e.const(x, 0.0), e.const(x, math.inf)
    positive = b.fcmp_ordered(">", x, zero)
    usual = b.and_(positive, b.fcmp_ordered("<", x, infinite))
    other = b.select(positive, x, e.const(x, math.nan))
    other = b.select(b.fcmp_ordered("==", x, zero), e.const(x, -math.inf), other)
    return b.select(usual, log_of_positive(e, x), other)
