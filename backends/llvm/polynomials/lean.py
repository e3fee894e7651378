"""sin and cos of f32 for machines that fuse and count instructions: GPUs. Within 4 ulps, as OPS says, up to EXACT.

    n = the integer nearest to x/pi (- 1/2), d = x - n·pi (- pi/2), result = ±d·(1 + d²·p(d²))

The product with d keeps the sign of zero. No result is clamped: the coefficients are so chosen that among all numbers d
up to pi/2 there is none whose result rounding carries beyond 1, which a test checks for every one near pi/2.

There is no branch for large arguments, which would cost a third of the time (docs/decisions/sines_on_gpus.md). Beyond
EXACT the result is that of an argument within an ulp of x; d is clamped, so it is in [-1, 1] whatever x is. NaN and
infinities give NaN.
"""
from __future__ import annotations

from collections.abc import Callable

from .. import ir
from ..emit import Arith
from ..types import F32
from .evaluate import constants, flip, horner, round_to_integer, scaled, sign_if_odd

SINE = (1.0, -0.1666666716337204, 0.008333238773047924, -0.00019822371541522443, 2.6335701477364637e-06)
"""(sin d)/d in powers of d², for |d| up to 1.0024·pi/2."""


EXACT = 2.0**15
"""Largest argument whose difference from n·pi has all its digits."""

WIDEST = 1.5745
"""What d is clamped to: more than what is left of any argument up to 2^22."""


def _half_wave(e: Arith, d: ir.Value) -> ir.Value:
    return e.b.fmul(d, horner(e, e.b.fmul(d, d), SINE))


def _less_multiple(e: Arith, x: ir.Value, n: ir.Value) -> ir.Value:
    for part in constants("pi_whole", x):
        x = scaled(e, n, -part, x)
    return e.intrinsic("maximum", e.intrinsic("minimum", x, e.const(x, WIDEST)), e.const(x, -WIDEST))


def sin(e: Arith, x: ir.Value) -> ir.Value:
    """sin(x) = sin((-1)^n·(x - n·pi))."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0])
    return _half_wave(e, flip(e, _less_multiple(e, x, n), sign_if_odd(e, total)))


def cos(e: Arith, x: ir.Value) -> ir.Value:
    """cos(x) = sin((-1)^n·((n + 1/2)·pi - x)); the difference is never 0."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0], -0.5)
    d = _less_multiple(e, x, e.b.fadd(n, e.const(n, 0.5)))
    return _half_wave(e, e.b.fneg(flip(e, d, sign_if_odd(e, total))))


LEAN: dict[str, Callable[[Arith, ir.Value], ir.Value]] = {"sin": sin, "cos": cos}


def lean(e: Arith, name: str, x: ir.Value) -> ir.Value:
    """The function of a scalar."""

    def body(e: Arith, function: ir.Function) -> None:
        e.b.ret(LEAN[name](e, function.args[0]))

    return e.b.call(e.m.helper(f"sg.{name}.lean", F32, [F32], body, ("nounwind", "alwaysinline")), [x])
