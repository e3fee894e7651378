"""This module emits atan2: reduce the point to one octant, evaluate a polynomial, and add back the octant."""

from __future__ import annotations

import math

from .. import ir
from ..emit import ArithEmitter
from .evaluate import constants, format_of, mad, polynomial

TURN = math.sqrt(2.0) - 1.0
"""tan(pi/8): above it, pi/4 is taken off."""


def _small_angle(e: ArithEmitter, low: ir.LLVMValue, high: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (condition 'pi/4 was subtracted', remaining angle) of the angle atan(low / high), 0 <= low <= high.

    tan(a - pi/4) = (tan(a) - 1)/(tan(a) + 1), so one division serves both. The largest numbers are scaled down, and two
    infinities count as equal; 0/0 is 0.
    """
    b, zero, one = e.b, e.const(low, 0.0), e.const(low, 1.0)
    both = b.fcmp_ordered("==", low, e.const(low, math.inf))
    low, high = b.select(both, one, low), b.select(both, one, high)
    large = b.fcmp_ordered(">", high, e.const(high, 2.0 ** (format_of(high).bias - 1)))
    factor = b.select(large, e.const(high, 0.25), one)
    low, high = b.fmul(low, factor), b.fmul(high, factor)
    turned = b.fcmp_ordered(">", low, b.fmul(high, e.const(high, TURN)))
    above, below = b.select(turned, b.fsub(low, high), low), b.select(turned, b.fadd(low, high), high)
    t = b.select(b.fcmp_ordered("==", high, zero), zero, b.fdiv(above, below))
    z = b.fmul(t, t)
    return turned, mad(e, b.fmul(t, z), polynomial(e, "atan", z), t)


def atan2(e: ArithEmitter, y: ir.LLVMValue, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the angle of the point (x, y), computed as q·pi/4 ± r with a whole number q and a small angle r.

    The number q counts what the three reflections add.
    """
    b = e.b
    up, across = e.intrinsic("fabs", y), e.intrinsic("fabs", x)
    steep = b.fcmp_ordered(">", up, across)
    low, high = b.select(steep, across, up), b.select(steep, up, across)
    turned, r = _small_angle(e, low, high)
    back = _sign_of(e, x)
    q = b.select(turned, e.const(x, 1.0), e.const(x, 0.0))
    q = b.select(steep, b.fsub(e.const(x, 2.0), q), q)
    q = b.select(back, b.fsub(e.const(x, 4.0), q), q)
    r = b.select(b.xor(steep, back), b.fneg(r), r)
    whole, part, _ = (part * 0.25 for part in constants("pi_whole", x))
    angle = b.fadd(_times(e, q, whole), mad(e, q, e.const(q, part), r))
    angle = e.intrinsic("copysign", angle, y)
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), angle)


def _times(e: ArithEmitter, q: ir.LLVMValue, unit: float) -> ir.LLVMValue:
    """Return q·unit for q = 0 .. 4."""
    # For q = 3, pi/4 loses a digit, which is far below the rounding of the sum.
    return e.b.fmul(q, e.const(q, unit))


def _sign_of(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that the sign bit of x is set."""
    one = e.intrinsic("copysign", e.const(x, 1.0), x)
    return e.b.fcmp_ordered("<", one, e.const(x, 0.0))
