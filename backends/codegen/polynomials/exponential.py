"""This module emits exp and tanh: subtract n·ln 2 from the argument, evaluate a polynomial, multiply by 2^n."""

from __future__ import annotations

from .. import ir
from ..emit import ArithEmitter
from .evaluate import clamp, constants, kind, mad, polynomial, round_to_integer, scaled, times_two_to, two_to

ENDS = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
"""Arguments of exp below and above which the result is 0 and infinite."""

FLAT = {"f32": 10.0, "f64": 20.0}
"""Arguments from which on tanh is 1."""


def reduced(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (x - n·ln 2, total): n is the integer nearest to x/ln 2, and total holds n in its low bits."""
    n, total = round_to_integer(e, x, constants("inverse_ln2", x)[0])
    # The product with the first part is exact.
    for part in constants("ln2", x):
        x = scaled(e, n, -part, x)
    return x, total


def exp(e: ArithEmitter, x: ir.LLVMValue, more: ir.LLVMValue | None = None) -> ir.LLVMValue:
    """Return e to the power x (plus `more` if given) as 2^n·exp(r), with n the integer nearest to x/ln 2.

    Args:
        e: Arithmetic to emit into.
        x: Exponent.
        more: Number that is added to the exponent; it is far below the last place of 1.
    """
    r, total = reduced(e, clamp(e, x, *ENDS[kind(x)]))
    r = r if more is None else e.b.fadd(r, more)
    return times_two_to(e, polynomial(e, "exp", r), total)


def _exp_minus_one(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return exp(x) - 1 = 2^n·(exp(r) - 1) + (2^n - 1), precise also near 0, for x in 0 .. 2·FLAT as tanh needs it."""
    r, total = reduced(e, x)
    rest = mad(e, e.b.fmul(r, r), polynomial(e, "exp", r, skip=2), r)
    power = two_to(e, total)
    return mad(e, power, rest, e.b.fsub(power, e.const(power, 1.0)))


def tanh(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the hyperbolic tangent of x: t/(t + 2) for |x|, t = exp(2|x|) - 1, with the sign of x."""
    magnitude = clamp(e, e.intrinsic("fabs", x), 0.0, FLAT[kind(x)])
    t = _exp_minus_one(e, e.b.fadd(magnitude, magnitude))
    return e.intrinsic("copysign", e.b.fdiv(t, e.b.fadd(t, e.const(t, 2.0))), x)
