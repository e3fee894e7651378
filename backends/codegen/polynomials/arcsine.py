"""This module emits asin and acos: a polynomial for |x| <= 1/2, and the half-angle formula for larger |x|.

The formula is asin(x) = pi/2 - 2·asin(sqrt((1 - x)/2)).
"""

from __future__ import annotations

from .. import ir
from ..emit import ArithEmitter
from .evaluate import constants, mad, polynomial


def _core(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (c, r): c is |x| > 1/2; r is asin(|x|), or asin(sqrt((1 - |x|)/2)) where c holds, NaN for |x| > 1."""
    b = e.b
    magnitude = e.intrinsic("fabs", x)
    half = e.const(x, 0.5)
    big = b.fcmp_ordered(">", magnitude, half)
    folded = b.fmul(b.fsub(e.const(x, 1.0), magnitude), half)
    z = b.select(big, folded, b.fmul(x, x))
    w = b.select(big, e.intrinsic("sqrt", folded), magnitude)
    return big, mad(e, b.fmul(w, z), polynomial(e, "asin", z), w)


def less_than(e: ArithEmitter, x: ir.LLVMValue, multiple: float) -> ir.LLVMValue:
    """Subtract x from a multiple of pi: return multiple·pi - x, where pi has twice the precision of x."""
    high, low, _ = constants("pi_whole", x)
    return e.b.fsub(e.const(x, multiple * high), e.b.fsub(x, e.const(x, multiple * low)))


def asin(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the arcsine of x; -0.0 gives -0.0."""
    big, core = _core(e, x)
    folded = less_than(e, e.b.fadd(core, core), 0.5)
    return e.intrinsic("copysign", e.b.select(big, folded, core), x)


def acos(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the arccosine of x, from the core of asin: 2·core near 1, pi - 2·core near -1, else pi/2 - asin(x)."""
    b = e.b
    big, core = _core(e, x)
    twice = b.fadd(core, core)
    negative = b.fcmp_ordered("<", x, e.const(x, 0.0))
    ends = b.select(negative, less_than(e, twice, 1.0), twice)
    return b.select(big, ends, less_than(e, e.intrinsic("copysign", core, x), 0.5))
