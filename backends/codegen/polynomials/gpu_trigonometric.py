"""This module emits sin and cos of f32 for GPUs, in few instructions, with fused multiplication and addition.

The results are within 4 ulps, as OPS says.

    n = the integer nearest to x/pi (- 1/2), d = x - n·pi (- pi/2), result = ±d·(1 + d²·p(d²))

The product with d keeps the sign of zero. No result is clamped: the coefficients are chosen so that among all numbers d
up to pi/2 there is none whose result rounding carries beyond 1, which a test checks for every number near pi/2.

Arguments that are known to be small (compiler/analysis/real_ranges.py) need less code; FORMS lists the forms, shortest
first. NaN may be an argument of each form, and gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .. import ir
from ..emit import ArithEmitter
from ..types import F32, I1, const
from .evaluate import bits, constants, flip, horner, polynomial, round_to_integer, scaled, sign_if_odd
from .trigonometric import LIMITS, inside

SINE = (1.0, -0.1666666716337204, 0.008333238773047924, -0.00019822371541522443, 2.6335701477364637e-06)
"""Coefficients of (sin d)/d in powers of d², for |d| up to 1.0024·pi/2."""

ONE = 1.0 + 2.0**-10
"""A little more than 1: sines of sines are at most this number, however they are rounded."""

SHORT_SINE = (1.0, -0.1666661500930786, 0.008330230601131916, -0.00019312264339532703)
"""Coefficients of (sin d)/d in powers of d², for |d| up to ONE."""

SHORT_COSINE = (1.0, -0.5, 0.04166657477617264, -0.0013884658692404628, 2.4199100153055042e-05)
"""Coefficients of cos d in powers of d², for |d| up to ONE."""

HALF_PI = 1.5707962512969970703
"""Half of the first part of pi, which is just below pi/2."""


def _half_wave(e: ArithEmitter, d: ir.LLVMValue) -> ir.LLVMValue:
    """Return sin(d) for |d| up to about pi/2."""
    return e.b.fmul(d, horner(e, e.b.fmul(d, d), SINE))


def _short_sine(e: ArithEmitter, d: ir.LLVMValue) -> ir.LLVMValue:
    """Return sin(d) by a short polynomial, which is valid for |d| up to the constant ONE."""
    return e.b.fmul(d, horner(e, e.b.fmul(d, d), SHORT_SINE))


def _short_cosine(e: ArithEmitter, d: ir.LLVMValue) -> ir.LLVMValue:
    """Return cos(d) by a short polynomial, which is valid for |d| up to the constant ONE."""
    return horner(e, e.b.fmul(d, d), SHORT_COSINE)


def _shifted(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return cos(x) = sin(pi/2 - |x|) for |x| up to pi."""
    first, second, _ = constants("pi_whole", x)
    d = e.b.fsub(e.const(x, first / 2), e.intrinsic("fabs", x))
    return _half_wave(e, e.b.fadd(d, e.const(x, second / 2)))


def _less_multiple(e: ArithEmitter, x: ir.LLVMValue, n: ir.LLVMValue) -> ir.LLVMValue:
    """Return x - n·pi, with pi split into parts that are subtracted one by one."""
    for part in constants("pi_whole", x):
        x = scaled(e, n, -part, x)
    return x


def sin(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the sine of x, which is the sine of (-1)^n·(x - n·pi)."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0])
    return _half_wave(e, flip(e, _less_multiple(e, x, n), sign_if_odd(e, total)))


def cos(e: ArithEmitter, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the cosine of x, which is the sine of (-1)^n·((n + 1/2)·pi - x); the difference is never 0."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0], -0.5)
    d = _less_multiple(e, x, e.b.fadd(n, e.const(n, 0.5)))
    return _half_wave(e, e.b.fneg(flip(e, d, sign_if_odd(e, total))))


@dataclass(frozen=True)
class ReductionForm:
    """Represent a code sequence for sin or cos that is valid for arguments with a magnitude of at most `limit`."""

    name: str
    limit: float
    write: Callable[[ArithEmitter, ir.LLVMValue], ir.LLVMValue]


NEAR = LIMITS[True]["f32"]

FORMS: dict[str, tuple[ReductionForm, ...]] = {
    "sin": (
        ReductionForm("short", ONE, _short_sine),
        ReductionForm("half", HALF_PI, _half_wave),
        ReductionForm("near", NEAR, sin),
    ),
    "cos": (
        ReductionForm("short", ONE, _short_cosine),
        ReductionForm("half", 2 * HALF_PI, _shifted),
        ReductionForm("near", NEAR, cos),
    ),
}
"""Forms of the code by operation, shortest first; beyond the limit of the last one, the library computes."""

LEAN = frozenset(FORMS)


def form_within(name: str, reach: float) -> ReductionForm | None:
    """Return the shortest code sequence for arguments up to the magnitude `reach`, or None if the library is needed."""
    return next((form for form in FORMS[name] if reach <= form.limit), None)


def emit_sin_or_cos(
    e: ArithEmitter, name: str, scalar: ir.LLVMFunction, x: ir.LLVMValue, reach: float = math.inf
) -> ir.LLVMValue:
    """Emit sin or cos of a scalar whose magnitude is at most `reach`, and return the result.

    Args:
        e: Arithmetic to emit into.
        name: `sin` or `cos`.
        scalar: The library's function, which takes arguments outside the range of the code.
        x: Argument, f32.
        reach: Largest magnitude of the argument.
    """
    form = form_within(name, reach)
    if form is not None:
        return form.write(e, x)

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        b, x = e.b, function.args[0]
        within = inside(e, x)
        fast, far = function.append_basic_block("inside"), function.append_basic_block("outside")
        b.cbranch(b.xor(within, const(I1, True)), far, fast, unlikely=True)
        b.position_at_end(far)
        b.ret(b.call(_outside(e, name, scalar), [x]))
        b.position_at_end(fast)
        b.ret(FORMS[name][-1].write(e, x))

    return e.b.call(e.m.helper(f"sg.{name}.lean", F32, [F32], body, ("nounwind", "alwaysinline")), [x])


def pays_together(reach: float) -> bool:
    """Return True if `emit_sincos` is faster than separate sin and cos, for arguments of magnitude at most `reach`."""
    # Short code shares what it can without `emit_sincos`.
    return form_within("cos", reach) in (None, FORMS["cos"][-1])


def emit_sincos(
    e: ArithEmitter, x: ir.LLVMValue, reach: float, libraries: tuple[ir.LLVMFunction, ir.LLVMFunction]
) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Emit sin and cos of one scalar with one reduction and one comparison of the argument; return (sin, cos).

    The builder may stand in another block afterwards.

    Args:
        e: Arithmetic to emit into.
        x: Argument, f32.
        reach: Largest magnitude of the argument.
        libraries: The library's sin and cos, which take arguments outside the range of the code.
    """
    if form_within("sin", reach) is not None:
        return _quarter_waves(e, x)
    b = e.b
    fast, far, done = (b.function.append_basic_block(name) for name in ("inside", "outside", "both"))
    b.cbranch(b.xor(inside(e, x), const(I1, True)), far, fast, unlikely=True)
    b.position_at_end(far)
    library = [b.call(_outside(e, name, known), [x]) for name, known in zip(("sin", "cos"), libraries)]
    b.branch(done)
    b.position_at_end(fast)
    own = _quarter_waves(e, x)
    b.branch(done)
    b.position_at_end(done)
    found = (b.phi(F32), b.phi(F32))
    for phi, one, other in zip(found, own, library):
        phi.add_incoming(one, fast)
        phi.add_incoming(other, far)
    return found


def _quarter_waves(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (sin, cos) of x, computed from those of d = x - n·pi/2, with n the integer nearest to 2x/pi."""
    n, total = round_to_integer(e, x, 2 * constants("inverse_pi", x)[0])
    # Sine and cosine of x are ± those of d, exchanged where n is odd.
    d = x
    for part in constants("pi_whole", x):
        d = scaled(e, n, -part / 2, d)
    return rotate_quadrant(e, d, total)


def rotate_quadrant(e: ArithEmitter, d: ir.LLVMValue, total: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return (sin, cos) of d + n·pi/2 for the integer n in the low bits of `total`.

    Args:
        e: Arithmetic to emit into.
        d: Number with a magnitude up to pi/4.
        total: Sum in which `round_to_integer` left the integer n.
    """
    b = e.b
    square = b.fmul(d, d)
    s, c = b.fmul(d, polynomial(e, "sin_quarter", square)), polynomial(e, "cos_quarter", square)
    word = bits(e, total)
    sign = sign_if_odd(e, total)
    odd = b.icmp_unsigned("!=", sign, e.const(sign, 0))
    # This is the sign bit where n/2, rounded down, is odd.
    half = b.and_(b.shl(word, e.const(word, 30)), e.const(word, 1 << 31))
    sine, cosine = b.select(odd, c, s), b.select(odd, s, c)
    return flip(e, sine, half), flip(e, cosine, b.xor(half, sign))


def _outside(e: ArithEmitter, name: str, scalar: ir.LLVMFunction) -> ir.LLVMFunction:
    """Return a function that calls the math library and is never inlined, so that loops keep their registers."""

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        e.b.ret(e.b.call(scalar, function.args))

    return e.m.helper(f"sg.{name}.outside", F32, [F32], body, ("nounwind", "noinline", "cold", "memory(none)"))
