"""This module emits fmod, which is exact.

The quotient is rounded toward zero, the product subtracted without rounding, and one step corrected. f32 works in f64,
where the product of a 24-bit divisor and a 29-bit quotient is exact. In f64 the product comes in two parts; for a
quotient below 2^52 the difference fits into a number of the type.
"""

from __future__ import annotations

import math

from .. import ir
from ..emit import ArithEmitter
from ..types import F32, F64, like
from .evaluate import kind, two_product


def inside(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that the inlined fmod is exact for these operands, or that an operand is NaN.

    The quotient must have few enough digits, and products must neither overflow nor underflow.
    """
    b = e.b
    up, down = e.intrinsic("fabs", x), e.intrinsic("fabs", y)
    if kind(x) == "f32":
        wide = like(x.type, F64)
        few = b.fcmp_unordered("<", b.fpext(up, wide), b.fmul(b.fpext(down, wide), ir.Constant(wide, 2.0**29)))
        return b.and_(few, b.fcmp_unordered("<", down, e.const(down, math.inf)))
    few = b.fcmp_unordered("<", b.fmul(up, e.const(x, 2.0**-51)), down)
    large = e.const(x, 2.0**960)
    small = b.and_(b.fcmp_unordered("<", up, large), b.fcmp_unordered("<", down, large))
    return b.and_(few, b.and_(small, b.fcmp_unordered(">", down, e.const(x, 2.0**-900))))


def fmod(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return x - y·trunc(x/y), with the sign of x."""
    up, down = e.intrinsic("fabs", x), e.intrinsic("fabs", y)
    rest = _narrow(e, up, down) if kind(x) == "f32" else _exact(e, up, down)
    return e.intrinsic("copysign", rest, x)


def _narrow(e: ArithEmitter, up: ir.LLVMValue, down: ir.LLVMValue) -> ir.LLVMValue:
    """Return fmod of two positive f32 by way of f64."""
    b, wide = e.b, like(up.type, F64)
    x, y = b.fpext(up, wide), b.fpext(down, wide)
    quotient = e.intrinsic("trunc", b.fdiv(x, y))
    return b.fptrunc(_corrected(e, b.fsub(x, b.fmul(quotient, y)), y), like(up.type, F32))


def _exact(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return fmod of two positive f64, with the product quotient·y in two parts so that it is exact."""
    quotient = e.intrinsic("trunc", e.b.fdiv(x, y))
    product, rest = two_product(e, quotient, y)
    return _corrected(e, e.b.fsub(e.b.fsub(x, product), rest), y)


def _corrected(e: ArithEmitter, rest: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the remainder moved to 0 <= rest < y, because the rounded quotient may be one too many."""
    b = e.b
    rest = b.select(b.fcmp_ordered("<", rest, e.const(rest, 0.0)), b.fadd(rest, y), rest)
    return b.select(b.fcmp_ordered(">=", rest, y), b.fsub(rest, y), rest)
