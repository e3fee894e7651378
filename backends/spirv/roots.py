"""Square roots of f32 that are rounded correctly: Vulkan lets those of a device be 2.5 ulps off, and NVIDIA's are one
off in one case of six. Those of f64 are the device's.

With r = x - s², which is exact for s near the root (s is split in halves of 12 digits, whose products are exact), a
step of Newton's gives t = s + r/2s within one place of the root; then t, or the number beside it, is the root rounded:

    x > (t + h)²  for h half the gap to the next number  <=>  x - t² > 2th,   x < (t - h)²  <=>  x - t² <= -2th

for both sides are multiples of what h² is less than. Tried for each mantissa, from s up to six places off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..llvm import ir
from ..llvm.types import F32, I32
from .code import Code
from .module import Value

if TYPE_CHECKING:
    from .emit import Arith

SMALL, LARGE, STEP = 2.0**-64, 2.0**96, 2.0**96
"""Parts of r are multiples of 2^-46 x: below SMALL some would be subnormal, which devices may take for zeros, and above
LARGE s² might overflow. Such x are scaled by STEP, up or down, subnormal ones too.
"""


def sqrt(e: Arith, x: ir.Value) -> Value:
    """As IEEE 754 has it."""
    if x.type != F32:
        return e.b.glsl("sqrt", x.type, x)
    return e.b.call(e.m.helper("sg.sqrt.f32", F32, [F32], _root), [x])


def _root(e: Arith, function: Code) -> None:
    b, (given,) = function, function.args
    small, large = (b.fcmp_ordered(sign, given, e.const(given, limit)) for sign, limit in (("<", SMALL), (">", LARGE)))

    def step(power: float) -> ir.Value:
        """STEP to that power where x is small, its inverse where it is large."""
        up, down, one = (e.const(given, STEP**p) for p in (power, -power, 0.0))
        return b.select(small, up, b.select(large, down, one))

    x = b.fmul(given, step(1.0))
    s = b.glsl("sqrt", F32, x)
    t = b.fadd(s, b.fdiv(_left(e, x, s), b.fadd(s, s)))
    usual = b.and_(b.fcmp_ordered(">", x, e.const(x, 0.0)), b.fcmp_ordered("<", x, e.const(x, float("inf"))))
    b.ret(b.fmul(b.select(usual, _nearest(e, x, t), s), step(-0.5)))


def _left(e: Arith, x: ir.Value, s: ir.Value) -> ir.Value:
    """x - s²."""
    b = e.b
    high = b.bitcast(b.and_(b.bitcast(s, I32), b.const(I32, -4096)), F32)
    low = b.fsub(s, high)
    twice = b.fmul(b.fadd(high, high), low)
    return b.fsub(b.fsub(b.fsub(x, b.fmul(high, high)), twice), b.fmul(low, low))


def _nearest(e: Arith, x: ir.Value, t: ir.Value) -> ir.Value:
    b, left = e.b, _left(e, x, t)
    above, below = (b.bitcast(b.add(b.bitcast(t, I32), b.const(I32, step)), F32) for step in (1, -1))
    lower = b.select(b.fcmp_ordered("<=", left, b.fmul(t, b.fsub(below, t))), below, t)
    return b.select(b.fcmp_ordered(">", left, b.fmul(t, b.fsub(above, t))), above, lower)
