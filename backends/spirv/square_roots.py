"""This module emits correctly rounded square roots of f32. The square roots of f64 are those of the device.

Vulkan lets the square roots of a device be 2.5 ulps off, and NVIDIA's are one ulp off in one case of six.

With r = x - s², which is exact for s near the root (s is split in halves of 12 digits, whose products are exact), a
step of Newton's method gives t = s + r/2s within one place of the root; then t, or a number beside it, is the rounded
root:

    x > (t + h)²  for h half the gap to the next number  <=>  x - t² > 2th,   x < (t - h)²  <=>  x - t² <= -2th

because both sides are multiples of a number that is greater than h². Tried for each mantissa, from s up to six places
off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen import ir
from ..codegen.types import F32, I32
from .code import ArithmeticWriter
from .module import SpirvValue

if TYPE_CHECKING:
    from .emit import ArithEmitter

SMALL, LARGE, STEP = 2.0**-64, 2.0**96, 2.0**96
"""Numbers below SMALL are scaled up by STEP, subnormal ones too, and numbers above LARGE are scaled down.

Parts of r are multiples of 2^-46 x: below SMALL some would be subnormal, and devices may take them for zeros. Above
LARGE s² might overflow.
"""


def sqrt(e: ArithEmitter, x: ir.LLVMValue) -> SpirvValue:
    """Emit a square root of an f32 that is correctly rounded as IEEE 754 demands, and return it."""
    if x.type != F32:
        return e.b.glsl("sqrt", x.type, x)
    return e.b.call(e.m.helper("sg.sqrt.f32", F32, [F32], _root), [x])


def _root(e: ArithEmitter, function: ArithmeticWriter) -> None:
    """Write the body of the function that computes the square root of an f32."""
    b, (given,) = function, function.args
    small, large = (b.fcmp_ordered(sign, given, e.const(given, limit)) for sign, limit in (("<", SMALL), (">", LARGE)))

    def step(power: float) -> ir.LLVMValue:
        """Return a scale factor for x: STEP**power if x is small, STEP**-power if x is large, else 1."""
        up, down, one = (e.const(given, STEP**p) for p in (power, -power, 0.0))
        return b.select(small, up, b.select(large, down, one))

    x = b.fmul(given, step(1.0))
    s = b.glsl("sqrt", F32, x)
    t = b.fadd(s, b.fdiv(_left(e, x, s), b.fadd(s, s)))
    usual = b.and_(b.fcmp_ordered(">", x, e.const(x, 0.0)), b.fcmp_ordered("<", x, e.const(x, float("inf"))))
    b.ret(b.fmul(b.select(usual, _nearest(e, x, t), s), step(-0.5)))


def _left(e: ArithEmitter, x: ir.LLVMValue, s: ir.LLVMValue) -> ir.LLVMValue:
    """Return x - s², the error of s as the square root of x."""
    b = e.b
    high = b.bitcast(b.and_(b.bitcast(s, I32), b.const(I32, -4096)), F32)
    low = b.fsub(s, high)
    twice = b.fmul(b.fadd(high, high), low)
    return b.fsub(b.fsub(b.fsub(x, b.fmul(high, high)), twice), b.fmul(low, low))


def _nearest(e: ArithEmitter, x: ir.LLVMValue, t: ir.LLVMValue) -> ir.LLVMValue:
    """Return the correctly rounded square root among the candidate t and its two neighboring floats."""
    b, left = e.b, _left(e, x, t)
    above, below = (b.bitcast(b.add(b.bitcast(t, I32), b.const(I32, step)), F32) for step in (1, -1))
    lower = b.select(b.fcmp_ordered("<=", left, b.fmul(t, b.fsub(below, t))), below, t)
    return b.select(b.fcmp_ordered(">", left, b.fmul(t, b.fsub(above, t))), above, lower)
