"""sin and cos of f32 in default builds: as polynomials/lean.py, for devices of which it is not known whether they fuse.

    n = the integer nearest to x/pi (- 1/2), d = x - n·pi (- pi/2), result = ±d·(1 + d²·p(d²))

The parts of pi have so few digits that their products are exact. No result is clamped: the coefficients are such that
there is no d whose result rounding carries beyond 1, in one rounding a step as in two. Errors stay below 3.9 ulps; the
table allows 4.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..llvm import ir
from ..llvm.polynomials.evaluate import constants, flip, horner, round_to_integer, scaled, sign_if_odd

SINE = (1.0, -0.1666666716337204, 0.008333236910402775, -0.00019822383183054626, 2.6335608254157705e-06)
"""(sin d)/d in powers of d², for |d| up to 1.0024·pi/2."""


PARTS = 3
"""Of pi: below the limit no number comes so close to a multiple that the next part would show."""


def _half_wave(e: Any, d: ir.Value) -> ir.Value:
    found: ir.Value = e.b.fmul(d, horner(e, e.b.fmul(d, d), SINE))
    return found


def _less_multiple(e: Any, x: ir.Value, n: ir.Value) -> ir.Value:
    for part in constants("pi_short", x)[:PARTS]:
        x = scaled(e, n, -part, x)
    return x


def sin(e: Any, x: ir.Value) -> ir.Value:
    """sin(x) = sin((-1)^n·(x - n·pi))."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0])
    return _half_wave(e, flip(e, _less_multiple(e, x, n), sign_if_odd(e, total)))


def cos(e: Any, x: ir.Value) -> ir.Value:
    """cos(x) = sin((-1)^n·((n + 1/2)·pi - x)); the difference is never 0."""
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0], -0.5)
    d = _less_multiple(e, x, e.b.fadd(n, e.const(n, 0.5)))
    return _half_wave(e, e.b.fneg(flip(e, d, sign_if_odd(e, total))))


LEAN: dict[str, Callable[[Any, ir.Value], ir.Value]] = {"sin": sin, "cos": cos}
