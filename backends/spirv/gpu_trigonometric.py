"""This module writes the sine and cosine of f32 for GPUs in default builds, shorter than the code for CPU lanes.

Where arguments are known to be small, less code does, as on CUDA (codegen/polynomials/gpu_trigonometric.py has the
limits); `shortest_writer` chooses the code.

    n = the integer nearest to x/pi (- 1/2), d = x - n·pi (- pi/2), result = ±(d + d³·p(d²))

The polynomial is that of polynomials/trigonometric.py, and so are the parts of pi, whose products are exact. No result
is clamped: a test looks at every d whose result could be carried beyond 1, and finds none, whether a product and a sum
are rounded once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codegen import ir
from ..codegen.polynomials import gpu_trigonometric as fused
from ..codegen.polynomials.evaluate import constants, flip, mad, polynomial, round_to_integer, scaled, sign_if_odd
from ..codegen.polynomials.trigonometric import LIMITS, one_at_zero

PARTS = 3
"""Number of parts of pi that are subtracted.

Below the limit no number comes so close to a multiple of pi that the next part would matter.
"""


def _half_wave(e: Any, d: ir.LLVMValue) -> ir.LLVMValue:
    """Return sin(d) for |d| <= pi/2, but +0.0 for -0.0."""
    square = e.b.fmul(d, d)
    return mad(e, e.b.fmul(d, square), polynomial(e, "sin_half", square, skip=1), d)


def _less_multiple(e: Any, x: ir.LLVMValue, n: ir.LLVMValue) -> ir.LLVMValue:
    """Return x - n·pi, computed with pi split in parts whose products with n are exact."""
    for part in constants("pi_short", x)[:PARTS]:
        x = scaled(e, n, -part, x)
    return x


def sin(e: Any, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the sine of an f32 whose magnitude does not exceed the limit of the polynomials.

    sin(x) = sin((-1)^n·(x - n·pi)).
    """
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0])
    d = flip(e, _less_multiple(e, x, n), sign_if_odd(e, total))
    found: ir.LLVMValue = e.intrinsic("copysign", _half_wave(e, d), d)
    return found


def cos(e: Any, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return the cosine of an f32 whose magnitude does not exceed the limit of the polynomials.

    cos(x) = sin((-1)^n·((n + 1/2)·pi - x)); the difference is never 0.
    """
    n, total = round_to_integer(e, x, constants("inverse_pi", x)[0], -0.5)
    d = _less_multiple(e, x, e.b.fadd(n, e.const(n, 0.5)))
    return one_at_zero(e, x, _half_wave(e, e.b.fneg(flip(e, d, sign_if_odd(e, total)))))


def quarter_waves(e: Any, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return sin(x) and cos(x), computed from the sine and cosine of d = x - n·pi/2.

    n is the integer nearest to 2x/pi; where n is odd, sine and cosine change places.
    """
    n, total = round_to_integer(e, x, 2 * constants("inverse_pi", x)[0])
    d = x
    for part in constants("pi_short", x)[:PARTS]:
        d = scaled(e, n, -part / 2, d)
    return fused.rotate_quadrant(e, d, total)


Write = Callable[[Any, ir.LLVMValue], ir.LLVMValue]

LEAN: dict[str, Write] = {"sin": sin, "cos": cos}


def _sin_of_half(e: Any, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return sin(x) for |x| up to pi/2."""
    found: ir.LLVMValue = e.intrinsic("copysign", _half_wave(e, x), x)
    return found


def _cos_shifted(e: Any, x: ir.LLVMValue) -> ir.LLVMValue:
    """Return cos(x) = sin(pi/2 - |x|) for |x| up to pi."""
    first, second, _ = constants("pi_whole", x)
    d = e.b.fsub(e.const(x, first / 2), e.intrinsic("fabs", x))
    return one_at_zero(e, x, _half_wave(e, e.b.fadd(d, e.const(x, second / 2))))


_SMALL: dict[str, Write] = {"sin": _sin_of_half, "cos": _cos_shifted}


def shortest_writer(name: str, reach: float) -> Write | None:
    """Return the writer of the shortest code that is valid for |x| <= `reach`, or None if a range test is needed."""
    form = fused.form_within(name, reach)
    if form is None or reach > LIMITS[False]["f32"]:
        return None
    return {"short": form.write, "half": _SMALL[name], "near": LEAN[name]}[form.name]
