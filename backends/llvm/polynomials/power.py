"""pow: exp(y·log|x|) with digits to spare, and the sign and the exceptions of IEEE afterwards.

f32 works in f64, whose logarithm has 29 digits more than the result needs.
"""
from __future__ import annotations

import math

from .. import ir
from ..emit import Arith
from ..types import F32, F64, like
from .exponential import exp
from .logarithm import log


def power(e: Arith, x: ir.Value, y: ir.Value) -> ir.Value:
    """pow(x, y)."""
    b = e.b
    up = e.intrinsic("fabs", x)
    wide = like(x.type, F64)
    size = b.fptrunc(exp(e, b.fmul(b.fpext(y, wide), log(e, b.fpext(up, wide)))), like(x.type, F32))
    return _signed(e, x, y, up, size)


def _signed(e: Arith, x: ir.Value, y: ir.Value, up: ir.Value, size: ir.Value) -> ir.Value:
    """The result from its magnitude. A number is odd if it is whole and its half is not."""
    b, zero, one = e.b, e.const(x, 0.0), e.const(x, 1.0)
    unit = b.and_(b.fcmp_ordered("==", up, one), b.fcmp_ordered("==", y, y))
    size = b.select(unit, one, size)
    whole, half = _is_whole(e, y), b.fmul(y, e.const(y, 0.5))
    odd = b.and_(whole, b.xor(_is_whole(e, half), ir.Constant(whole.type, True)))
    out = b.select(odd, e.intrinsic("copysign", size, x), size)
    finite = b.fcmp_ordered(">", x, e.const(x, -math.inf))
    below = b.and_(b.fcmp_ordered("<", x, zero), finite)
    undefined = b.and_(below, b.xor(whole, ir.Constant(whole.type, True)))
    out = b.select(undefined, e.const(x, math.nan), out)
    always = b.or_(b.fcmp_ordered("==", y, zero), b.fcmp_ordered("==", x, one))
    return b.select(always, one, out)


def _is_whole(e: Arith, y: ir.Value) -> ir.Value:
    return e.b.fcmp_ordered("==", e.intrinsic("floor", y), y)
