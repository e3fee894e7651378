"""This module emits pow as exp(y·log|x|) in extended precision, then sets the sign and the special cases of IEEE.

f32 works in f64, whose logarithm has 29 digits more than the result needs. f64, and f32 where there is no f64, carry
the logarithm and its product with y as sums of two numbers: y·log|x| goes up to 745 (f32: 104), where the last place of
one number is 2^10 (2^7) times that of exp's.
"""

from __future__ import annotations

import math

from .. import ir
from ..emit import ArithEmitter
from ..types import F32, F64, like
from .evaluate import constants, kind, mad, polynomial, two_product, two_sum
from .exponential import exp
from .logarithm import log, split_exponent

DoubleDouble = tuple[ir.LLVMValue, ir.LLVMValue]
"""A number as a sum of two: the rounded number, and what is left of it."""

_TWO_THIRDS = {"f32": (11184811 * 2.0**-24, -(2.0**-24) / 3), "f64": (2 / 3, 2.0**-53 / 3)}


def power(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return pow(x, y)."""
    up = e.intrinsic("fabs", x)
    wider = kind(x) == "f32" and e.m.target.doubles
    return _signed(e, x, y, up, (_by_f64 if wider else _by_pairs)(e, up, y))


def _by_f64(e: ArithEmitter, up: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return pow(up, y) for f32 numbers, computed in f64; `up` is |x|."""
    b, wide = e.b, like(up.type, F64)
    return b.fptrunc(exp(e, b.fmul(b.fpext(y, wide), log(e, b.fpext(up, wide)))), like(up.type, F32))


# ---- pairs --------------------------------------------------------------------------------------------------


def _by_pairs(e: ArithEmitter, up: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return pow(up, y), where `up` is |x|, with the logarithm of `up` as an unevaluated sum of two reals."""
    b = e.b
    high, low = _log_pair(e, up)
    finite = b.and_(b.fcmp_ordered(">", up, e.const(up, 0.0)), b.fcmp_ordered("<", up, e.const(up, math.inf)))
    # Zeros and infinities have the logarithm that `log` gives.
    special = b.select(b.fcmp_ordered("==", up, e.const(up, 0.0)), e.const(up, -math.inf), up)
    high, low = b.select(finite, high, special), b.select(finite, low, e.const(up, 0.0))
    product, rest = two_product(e, y, high)
    rest = mad(e, y, low, rest)
    # Beyond exp's range the small part does not matter.
    within = b.fcmp_ordered("<", e.intrinsic("fabs", product), e.const(up, 1000.0))
    return exp(e, product, b.select(within, rest, e.const(up, 0.0)))


def _log_pair(e: ArithEmitter, x: ir.LLVMValue) -> DoubleDouble:
    """Return log(x) of a positive finite x as the unevaluated sum of two reals, about 65 bits for f64.

    The value is k·ln 2 + s·(2 + s²·L(s²)) with s = f/(2 + f).
    """
    b = e.b
    k, mantissa = split_exponent(e, x)
    log_high, log_low = _times(e, s := _quotient(e, mantissa), _series(e, s))
    high, low = constants("ln2", x)
    total, rest = two_sum(e, b.fmul(k, e.const(k, high)), log_high)
    return two_sum(e, total, b.fadd(rest, mad(e, k, e.const(k, low), log_low)))


def _quotient(e: ArithEmitter, mantissa: ir.LLVMValue) -> DoubleDouble:
    """Return f/(2 + f) for f = mantissa - 1 as a sum of two reals, by one division and one correction."""
    b = e.b
    f = b.fsub(mantissa, e.const(mantissa, 1.0))
    below, below_rest = two_sum(e, e.const(f, 2.0), f)
    inverse = b.fdiv(e.const(f, 1.0), below)
    s = b.fmul(f, inverse)
    product, rest = two_product(e, s, below)
    left = b.fsub(b.fsub(b.fsub(f, product), rest), b.fmul(s, below_rest))
    return two_sum(e, s, b.fmul(left, inverse))


def _series(e: ArithEmitter, s: DoubleDouble) -> DoubleDouble:
    """Return log((1 + s)/(1 - s))/s, the series 2 + (2/3)·s² + ..., as a sum of two reals."""
    z = _times(e, s, s)
    first, first_rest = (e.const(z[0], c) for c in _TWO_THIRDS[kind(z[0])])
    inner, inner_rest = two_sum(e, first, e.b.fmul(z[0], polynomial(e, "log_pair", z[0], skip=1)))
    term, term_rest = _times(e, z, (inner, e.b.fadd(inner_rest, first_rest)))
    total, rest = two_sum(e, e.const(term, 2.0), term)
    return total, e.b.fadd(rest, term_rest)


def _times(e: ArithEmitter, x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return the product of two numbers, each an unevaluated sum of two reals, as a sum of two reals."""
    product, rest = two_product(e, x[0], y[0])
    return product, mad(e, x[0], y[1], mad(e, x[1], y[0], rest))


# ---- sign and exceptions ------------------------------------------------------------------------------------


def _signed(e: ArithEmitter, x: ir.LLVMValue, y: ir.LLVMValue, up: ir.LLVMValue, size: ir.LLVMValue) -> ir.LLVMValue:
    """Return the result of pow: the magnitude `size` with its sign, or the special value that IEEE demands.

    Args:
        e: Arithmetic to emit into.
        x: Base.
        y: Exponent.
        up: Magnitude of the base.
        size: Magnitude of the result.
    """
    b, zero, one = e.b, e.const(x, 0.0), e.const(x, 1.0)
    unit = b.and_(b.fcmp_ordered("==", up, one), b.fcmp_ordered("==", y, y))
    size = b.select(unit, one, size)
    # A number is odd if it is whole and its half is not.
    whole, half = _is_whole(e, y), b.fmul(y, e.const(y, 0.5))
    odd = b.and_(whole, b.xor(_is_whole(e, half), ir.Constant(whole.type, True)))
    out = b.select(odd, e.intrinsic("copysign", size, x), size)
    finite = b.fcmp_ordered(">", x, e.const(x, -math.inf))
    below = b.and_(b.fcmp_ordered("<", x, zero), finite)
    undefined = b.and_(below, b.xor(whole, ir.Constant(whole.type, True)))
    out = b.select(undefined, e.const(x, math.nan), out)
    always = b.or_(b.fcmp_ordered("==", y, zero), b.fcmp_ordered("==", x, one))
    return b.select(always, one, out)


def _is_whole(e: ArithEmitter, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that y is a whole number."""
    return e.b.fcmp_ordered("==", e.intrinsic("floor", y), y)
