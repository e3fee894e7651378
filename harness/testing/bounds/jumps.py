"""This module bounds errors of discontinuous operations: 0 if the result is certain, else infinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....compiler.ir.ops import COMPARISONS
from ....reference.frame import LaneVector
from .rules import BOUNDS, DOUBLE, INF, ZERO, Arguments, ErrorRule, Spread, join, quotient

# ---- jumps ------------------------------------------------------------------------------------------------------


def interval_ends(x: LaneVector, e: LaneVector) -> tuple[LaneVector, LaneVector]:
    """Return both ends of the interval x ± e, rounded outward; an exact x is both ends."""
    # DOUBLE covers the rounding of the ends themselves.
    width = np.where(e > 0, e + np.abs(x) * DOUBLE, ZERO)
    return x - width, x + width


def stepped(step: Callable[[LaneVector], LaneVector], x: LaneVector, e: LaneVector) -> LaneVector:
    """Return 0 where a monotone step function is constant over the interval x ± e, else infinity."""
    low, high = interval_ends(x, e)
    return np.where((e == 0) | (step(low) == step(high)), ZERO, INF)


def _step(function: Callable[[LaneVector], LaneVector]) -> Spread:
    return lambda x, e, r, u: stepped(function, x[0], e[0])


def _quotient_ends(x: Arguments, e: Arguments, share: float) -> LaneVector:
    """Return a mask of the lanes in which floor(x/y) is the same at both ends of the quotient's error interval.

    `share` is a further error, relative to the quotient.
    """
    q = x[0] / x[1]
    width = quotient(x, e, q, 0.0) + np.abs(q) * share
    mask: LaneVector = np.floor(q - width) == np.floor(q + width)
    return mask


def _floor_division(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a floor division: 0 where the floor is certain, else infinity."""
    whole = (e[0] == 0) & (e[1] == 0) & (r * x[1] == x[0])
    # An exact zero as divisor gives a certain infinity if the sign of the dividend is certain.
    pole = (x[1] == 0) & (e[1] == 0) & (np.abs(x[0]) > e[0])
    return np.where(whole | pole | _quotient_ends(x, e, 2 * u), ZERO, INF)


def _modulo(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of x - k·y with k = floor(x/y), infinite where k is uncertain."""
    # x - r is k·y up to rounding, so that rounding to an integer recovers k.
    k = np.abs(np.rint((x[0] - r) / x[1])) if e[1] is not ZERO else ZERO
    exact = (e[0] == 0) & (e[1] == 0)
    return np.where(exact, ZERO, np.where(_quotient_ends(x, e, DOUBLE), e[0] + k * e[1], INF))


def _exponent(x: LaneVector) -> LaneVector:
    return np.frexp(x)[1]


def _same_exponent(x: LaneVector, e: LaneVector) -> LaneVector:
    low, high = interval_ends(x, e)
    mask: LaneVector = (_exponent(low) == _exponent(high)) & (low * high > 0) & np.isfinite(e)
    return mask


def _mantissa(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    scaled = np.ldexp(e[0], np.negative(_exponent(x[0])))
    return np.where(e[0] == 0, ZERO, np.where(_same_exponent(x[0], e[0]), scaled, INF))


def _whole_exponent(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    return np.where((e[0] == 0) | _same_exponent(x[0], e[0]), ZERO, INF)


BOUNDS["floor"] = ErrorRule(_step(np.floor), "kept")
BOUNDS["ceil"] = ErrorRule(_step(np.ceil), "kept")
BOUNDS["round"] = ErrorRule(_step(np.rint), "kept")
BOUNDS["sgn"] = ErrorRule(_step(np.sign), "kept")
BOUNDS["floordiv"] = ErrorRule(_floor_division, "kept", rounds_inside=True)
BOUNDS["mod"] = ErrorRule(_modulo, "approximated")
BOUNDS["frexp_mantissa"] = ErrorRule(_mantissa, "kept")
BOUNDS["frexp_exponent"] = ErrorRule(_whole_exponent, "discrete")


# ---- comparisons and logic --------------------------------------------------------------------------------------


def _comparison(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return infinity where two operands are too close, given their errors, to be compared with certainty, else 0."""
    width = e[0] + e[1]
    return np.where((width > 0) & ~(np.abs(x[0] - x[1]) > width), INF, ZERO)


def _settled_by(value: bool) -> Callable[[Arguments, Arguments, LaneVector], LaneVector]:
    """Return the function that bounds the error of `and` or `or`, which an operand that is surely `value` decides.

    For integers every operand counts.
    """

    def discrete(x: Arguments, e: Arguments, r: LaneVector) -> LaneVector:
        joined = join(e)
        if joined is ZERO or r.dtype != np.bool_:
            return joined
        settled = [(a == value) & (d == 0) for a, d in zip(x, e)]
        return np.where(settled[0] | settled[1], ZERO, joined)

    return discrete


def _never(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    return join(e)


_OPAQUE = ErrorRule(_never, "discrete")
BOUNDS.update({name: ErrorRule(_comparison, "discrete") for name in COMPARISONS})
BOUNDS.update({name: ErrorRule(_never, "discrete", discrete=_settled_by(False)) for name in ("bit_and", "logical_and")})
BOUNDS.update({name: ErrorRule(_never, "discrete", discrete=_settled_by(True)) for name in ("bit_or", "logical_or")})
BOUNDS.update(
    {
        name: _OPAQUE
        for name in (
            "bit_not",
            "logic_not",
            "popcnt",
            "clz",
            "ffs",
            "bit_xor",
            "bit_shl",
            "bit_shr",
            "bit_sar",
            "unique",
        )
    }
)
