"""sin and cos of f32 for machines that fuse and count instructions: GPUs. Within 4 ulps, as OPS says.

    n = the integer nearest to x/pi (- 1/2), d = x - n·pi (- pi/2), result = ±d·(1 + d²·p(d²))

The product with d keeps the sign of zero. No result is clamped: the coefficients are so chosen that among all numbers d
up to pi/2 there is none whose result rounding carries beyond 1, which a test checks for every one near pi/2.
"""
from __future__ import annotations

from collections.abc import Callable

from .. import ir
from ..emit import Arith
from ..types import F32, I1, const
from .evaluate import constants, flip, horner, round_to_integer, scaled, sign_if_odd
from .trigonometric import inside

SINE = (1.0, -0.1666666716337204, 0.008333238773047924, -0.00019822371541522443, 2.6335701477364637e-06)
"""(sin d)/d in powers of d², for |d| up to 1.0024·pi/2."""


def _half_wave(e: Arith, d: ir.Value) -> ir.Value:
    return e.b.fmul(d, horner(e, e.b.fmul(d, d), SINE))


def _less_multiple(e: Arith, x: ir.Value, n: ir.Value) -> ir.Value:
    for part in constants("pi_whole", x):
        x = scaled(e, n, -part, x)
    return x


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


def lean(e: Arith, name: str, scalar: ir.Function, x: ir.Value) -> ir.Value:
    """The function of a scalar; `scalar` is the library's, which takes what is outside of the range."""

    def body(e: Arith, function: ir.Function) -> None:
        b, x = e.b, function.args[0]
        within = inside(e, x)
        fast, far = function.append_basic_block("inside"), function.append_basic_block("outside")
        b.cbranch(b.xor(within, const(I1, True)), far, fast, unlikely=True)
        b.position_at_end(far)
        b.ret(b.call(_outside(e, name, scalar), [x]))
        b.position_at_end(fast)
        b.ret(LEAN[name](e, x))

    return e.b.call(e.m.helper(f"sg.{name}.lean", F32, [F32], body, ("nounwind", "alwaysinline")), [x])


def _outside(e: Arith, name: str, scalar: ir.Function) -> ir.Function:
    """The library's function behind a call, so that it takes no registers and no room in loops."""

    def body(e: Arith, function: ir.Function) -> None:
        e.b.ret(e.b.call(scalar, function.args))

    return e.m.helper(f"sg.{name}.outside", F32, [F32], body, ("nounwind", "noinline", "cold", "memory(none)"))
