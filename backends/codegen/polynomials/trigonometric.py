"""This module emits sin, cos and tan: subtract a multiple of pi from the argument, then evaluate polynomials.

The difference is taken part by part of pi, largest first. With fused multiply-add the parts have all digits of the
type: the first difference is exact, because its digits end where those of the part do and it is small, and later ones
are rounded once. Without it the parts are so short that the products are exact. Both hold below a limit.
"""

from __future__ import annotations

from .. import ir
from ..emit import ArithEmitter
from .evaluate import clamp, constants, flip, kind, mad, polynomial, round_to_integer, scaled, sign_if_odd

LIMITS = {True: {"f32": 2.0**15, "f64": 2.0**30}, False: {"f32": 2.0**7, "f64": 2.0**20}}
"""Largest argument of the inlined code, by whether the machine fuses, and by type."""


def inside(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that the inlined code covers x: |x| is within the limit, or x is NaN."""
    limit = e.const(x, LIMITS[e.m.target.fused][kind(x)])
    return e.b.fcmp_unordered("<=", e.intrinsic("fabs", x), limit)


def _less_multiple(e: ArithEmitter, x: ir.LLVMValue, n: ir.LLVMValue, unit: float) -> ir.LLVMValue:
    """Return x - n·unit·pi, with pi in more than working precision."""
    for part in constants("pi_whole" if e.m.target.fused else "pi_short", x):
        x = scaled(e, n, -part * unit, x)
    return x


def _half_wave(e: ArithEmitter, d: ir.LLVMValue) -> ir.LLVMValue:
    """Return sin(d) for |d| <= pi/2, clamped to [-1, 1]; the result for -0.0 is +0.0."""
    square = e.b.fmul(d, d)
    return clamp(e, mad(e, e.b.fmul(d, square), polynomial(e, "sin_half", square, skip=1), d), -1.0, 1.0)


def sin(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the sine of x, which is the sine of (-1)^n·(x - n·pi), n the integer nearest to x/pi."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0])
    d = flip(e, _less_multiple(e, x, n, 1), sign_if_odd(e, total))
    return e.intrinsic("copysign", _half_wave(e, d), d)


def cos(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the cosine of x: the sine of (-1)^n·((n + 1/2)·pi - x), n the integer nearest to x/pi - 1/2."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0], -0.5)
    # The difference is never 0.
    d = _less_multiple(e, x, e.b.fadd(n, e.const(n, 0.5)), 1)
    return one_at_zero(e, x, _half_wave(e, e.b.fneg(flip(e, d, sign_if_odd(e, total)))))


def one_at_zero(e: ArithEmitter, x: ir.LLVMValue, found: ir.LLVMValue) -> ir.LLVMValue:
    """Return the cosine `found`, but exactly 1 where x = 0, which the code for f32 alone would round below 1."""
    # The code gives cos(0) = 1 in f64; rounding leaves the result of f32 below 1.
    if kind(x) == "f64":
        return found
    return e.b.select(e.b.fcmp_ordered("==", x, e.const(x, 0.0)), e.const(x, 1.0), found)


def tan(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the tangent of x: s/c, or -c/s for odd n, with sine s and cosine c of x - n·pi/2.

    n is the integer nearest to 2x/pi;
    """
    n, total = round_to_integer(e, x, 2 * constants("inverse_pi", x)[0])
    d = _less_multiple(e, x, n, 0.5)
    square = e.b.fmul(d, d)
    s = mad(e, e.b.fmul(d, square), polynomial(e, "sin_quarter", square, skip=1), d)
    s, c = e.intrinsic("copysign", s, d), polynomial(e, "cos_quarter", square)
    sign = sign_if_odd(e, total)
    odd = e.b.icmp_unsigned("!=", sign, e.const(sign, 0))
    quotient = e.b.fdiv(e.b.select(odd, c, s), e.b.select(odd, s, c))
    return flip(e, quotient, sign)
