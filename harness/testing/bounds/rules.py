"""This module contains the table BOUNDS, which says how errors of operands propagate through each operation.

An entry gives p >= |f(x') - f(x)| for all x' within the errors of x, as an upper bound and not only to first order: the
derivative is taken at its largest over the interval (mean value theorem), or the difference is exact. If the interval
meets a pole, a branch cut or a jump, or leaves the domain, p is infinite. Arguments are f64; NaN stands for a case that
`roundoff` settles. The errors of integers and booleans are 0 or infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal, cast

import numpy as np

from ....compiler.ir.ops import COMPARISONS, OPS
from ....compiler.ir.table import Table
from ....reference.frame import LaneVector

F64 = np.float64
# These two stand for arrays: as scalars of NumPy they have the methods and operators of arrays, and they broadcast.
ZERO = cast(LaneVector, np.float64(0.0))
"""The error of a value that is exact in all lanes. It is recognized by identity."""

INF = cast(LaneVector, np.float64(np.inf))
DOUBLE = 2.0**-51
"""Relative rounding of an endpoint x ± e, both operations together."""

LEAST = 2.0**-1074
"""Amount that a result may have lost by underflow before it is multiplied by something large."""

Arguments = Sequence[LaneVector]
Spread = Callable[[Arguments, Arguments, LaneVector, float], LaneVector]
"""Function from (operands, their errors, result, unit roundoff of the result's type) to p."""

Test = Callable[[Arguments], Any]


def _false(xs: Arguments) -> Any:
    return np.False_


def _true(xs: Arguments) -> Any:
    return np.True_


def _unknown(xs: Arguments, r: LaneVector) -> Any:
    return np.False_


def _lost(xs: Arguments, es: Arguments, r: LaneVector, e: LaneVector) -> LaneVector:
    return INF


@dataclass(frozen=True)
class ErrorRule:
    """An `ErrorRule` says how errors of operands propagate through one operation.

    Attributes:
        spread: computes p, see the module.
        kind: the kind of rounding, see `roundoff`.
        additive: True if an exact 0 leaves the other operand unchanged.
        underflows: True if a rounded result may be off by the least subnormal.
        rounds_inside: True if exact operands give an inexact result once roundings may be missing.
        raw: True if operands keep their dtypes.
        zero: tells where a result of 0 without error is exactly 0.
        pole: tells where infinity is the exact result.
        exact: a sufficient condition, in f64, for a result without rounding.
        limit: the error where an operand is certainly infinite or NaN and another operand is inexact.
        discrete: the rule for integers and booleans; None for `join`.
    """

    spread: Spread
    kind: Literal["rounded", "approximated", "kept", "discrete"]
    additive: bool = False
    underflows: bool = False
    rounds_inside: bool = False
    raw: bool = False
    zero: Test = _true
    pole: Test = _false
    exact: Callable[[Arguments, LaneVector], LaneVector] = _unknown
    limit: Callable[[Arguments, Arguments, LaneVector, LaneVector], LaneVector] = _lost
    discrete: Callable[[Arguments, Arguments, LaneVector], LaneVector] | None = None


BOUNDS: Table[str, ErrorRule] = Table(
    "bounds.ops",
    OPS,
    about="how errors of the operands reach the result, as an upper bound",
    blank='ErrorRule({todo}, "rounded")',
    derive=lambda name: "that of all comparisons" if name in COMPARISONS else "",
)


def join(errors: Arguments) -> LaneVector:
    """Return, in each lane, the largest error of the operands."""
    return reduce(lambda a, b: a if b is ZERO else b if a is ZERO else np.maximum(a, b), errors)


# ---- arithmetic -------------------------------------------------------------------------------------------------


def _same(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    return e[0]


def _sum(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    return e[0] + e[1]


def _product(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return |x|·dy + |y|·dx + dx·dy, the error bound of a product."""
    if e[0] is ZERO:
        return np.abs(x[0]) * e[1]
    if e[1] is ZERO:
        return np.abs(x[1]) * e[0]
    bound: LaneVector = (np.abs(x[0]) + e[0]) * e[1] + np.abs(x[1]) * e[0]
    return bound


def _gap(x: LaneVector, e: LaneVector) -> LaneVector:
    """Return the least magnitude of a number that differs from x by at most e."""
    return np.abs(x) if e is ZERO else np.maximum(np.abs(x) - e, 0.0)


def quotient(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a quotient x/y.

    It follows from (x + dx)/(y + dy) - q = (dx - q·dy)/(y + dy). Exact denominators have no pole nearby.
    """
    if e[1] is ZERO:
        return e[0] / np.abs(x[1])
    bound: LaneVector = (e[0] + np.abs(x[0] / x[1]) * e[1]) / _gap(x[1], e[1])
    return bound


def _inverse(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    bound: LaneVector = e[0] / (np.abs(x[0]) * _gap(x[0], e[0]))
    return bound


def _fits(x: LaneVector) -> LaneVector:
    """Return a mask that is True where x is exactly representable in f32, so that products are exact in f64."""
    mask: LaneVector = x.astype(np.float32).astype(F64) == x
    return mask


def _exact_sum(x: Arguments, r: LaneVector) -> LaneVector:
    """Return True where the sum r of two operands has no rounding error, by Dekker's test."""
    mask: LaneVector = (r - x[0] == x[1]) & (r - x[1] == x[0])
    return mask


def _exact_difference(x: Arguments, r: LaneVector) -> LaneVector:
    mask: LaneVector = (x[0] - r == x[1]) & (r + x[1] == x[0])
    return mask


def _exact_product(x: Arguments, r: LaneVector) -> LaneVector:
    mask: LaneVector = _fits(x[0]) & _fits(x[1]) | (x[0] == 0) | (x[1] == 0)
    return mask


def _exact_quotient(x: Arguments, r: LaneVector) -> LaneVector:
    mask: LaneVector = _fits(r) & _fits(x[1]) & (r * x[1] == x[0])
    return mask


def _exact_inverse(x: Arguments, r: LaneVector) -> LaneVector:
    return _exact_quotient((np.ones_like(x[0]), x[0]), r)


def _exact_root(x: Arguments, r: LaneVector) -> LaneVector:
    mask: LaneVector = _fits(r) & (r * r == x[0])
    return mask


def _infinite_sum(x: Arguments, e: Arguments, r: LaneVector, p: LaneVector) -> LaneVector:
    """Return zero errors for a sum with an infinity or NaN, because such a result is certain."""
    return ZERO


def _infinite_product(x: Arguments, e: Arguments, r: LaneVector, p: LaneVector) -> LaneVector:
    """Return 0 where a product with an infinity or NaN is certain: inf·y if the sign of y is certain, and NaN·y."""
    certain = (np.abs(x[0]) > e[0]) & (np.abs(x[1]) > e[1])
    return np.where(np.isnan(x[0]) | np.isnan(x[1]) | certain, ZERO, INF)


def _infinite_quotient(x: Arguments, e: Arguments, r: LaneVector, p: LaneVector) -> LaneVector:
    certain = np.isinf(x[0]) & (np.abs(x[1]) > e[1]) | np.isinf(x[1]) & np.isfinite(x[0])
    return np.where(np.isnan(x[0]) | np.isnan(x[1]) | certain, ZERO, INF)


def _by_zero(x: Arguments) -> LaneVector:
    mask: LaneVector = x[-1] == 0
    return mask


_ADDITIVE = partial(ErrorRule, kind="rounded", additive=True, limit=_infinite_sum)
BOUNDS["add"] = _ADDITIVE(_sum, exact=_exact_sum)
BOUNDS["sub"] = _ADDITIVE(_sum, exact=_exact_difference)
BOUNDS["mul"] = ErrorRule(_product, "rounded", underflows=True, exact=_exact_product, limit=_infinite_product)
BOUNDS["div"] = ErrorRule(
    quotient, "rounded", underflows=True, pole=_by_zero, exact=_exact_quotient, limit=_infinite_quotient
)
BOUNDS["inv"] = ErrorRule(_inverse, "rounded", underflows=True, pole=_by_zero, exact=_exact_inverse)
BOUNDS["rcp"] = ErrorRule(_inverse, "approximated", underflows=True, pole=_by_zero, zero=_false, exact=_exact_inverse)
BOUNDS["neg"] = ErrorRule(_same, "kept")
BOUNDS["abs"] = ErrorRule(_same, "kept")


# ---- roots, exponentials, logarithms ----------------------------------------------------------------------------


def _root(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a square root, by sqrt(x) - sqrt(x - d) = d/(sqrt(x) + sqrt(x - d)).

    NaN is possible if the interval reaches below zero, and certain if all of it lies below.
    """
    low = x[0] - e[0]
    inside = np.where(e[0] == 0, ZERO, e[0] / (np.sqrt(np.maximum(low, 0.0)) + np.sqrt(x[0])))
    return np.where(low >= 0, inside, np.where(x[0] < -e[0], ZERO, INF))


def _inverse_root(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    low = x[0] - e[0]
    return np.where(low > 0, 0.5 * e[0] / (low * np.sqrt(low)), np.where(x[0] < -e[0], ZERO, INF))


def _exponential(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    return (np.exp(x[0]) + LEAST) * np.expm1(e[0])


def _logarithm(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    low = x[0] - e[0]
    return np.where(low > 0, e[0] / low, np.where(x[0] < -e[0], ZERO, INF))


def _power(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a power: relative to the result away from zero, by the derivative near zero.

    Away from zero x^y = exp(y log x); at zero the bound is |y|·(|x| + dx)^(y - 1)·dx for exact y >= 1. A negative base
    needs an exact integer exponent, else NaN is certain or possible.
    """
    (x0, y), (dx, dy) = x, e
    size, low = np.abs(x0), _gap(x0, dx)
    whole = (dy == 0) & (np.floor(y) == y)
    slope = np.abs(y) * dx / low
    change = slope + np.abs(np.log(size)) * dy + dx / low * dy
    away = (np.power(size, y) + LEAST) * np.expm1(np.where((dx == 0) & (dy == 0), ZERO, change))
    near = np.where((dy == 0) & (y >= 1) & (whole | (x0 >= dx)), y * (size + dx) ** (y - 1) * dx, INF)
    zero = np.where((x0 == 0) & (dx == 0) & (y > dy), ZERO, near)
    # x^0 is 1 for every x.
    constant = np.where((dy == 0) & (y == 0), ZERO, zero)
    negative = np.where(whole, away, np.where((dy == 0) & (low > 0), ZERO, INF))
    return np.where(low > 0, np.where(x0 > 0, away, negative), constant)


BOUNDS["sqrt"] = ErrorRule(_root, "rounded", exact=_exact_root)
BOUNDS["rsqrt"] = ErrorRule(_inverse_root, "approximated", zero=_false, pole=_by_zero)
BOUNDS["exp"] = ErrorRule(_exponential, "approximated", zero=_false)
BOUNDS["log"] = ErrorRule(_logarithm, "approximated", pole=_by_zero)
BOUNDS["pow"] = ErrorRule(_power, "approximated", zero=lambda x: x[0] == 0, pole=lambda x: x[0] == 0)


# ---- circular and hyperbolic functions --------------------------------------------------------------------------


def _wave(slope: np.ufunc) -> Spread:
    """Return an error function for f with |f'| <= 1 and |f''| <= 1: |f'(x)|·d + d²/2, but at most d."""

    def spread(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
        bound: LaneVector = np.minimum(np.abs(slope(x[0])) * e[0] + 0.5 * e[0] * e[0], e[0])
        return bound

    return spread


def _tangent(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a tangent: sin d / (cos x cos(x + d)), where |cos(x + d)| >= |cos x| - d."""
    c = np.abs(np.cos(x[0]))
    bound: LaneVector = e[0] / (c * np.maximum(c * (1 - DOUBLE) - e[0], 0.0))
    return bound


def _arc(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of asin or acos, whose derivative 1/sqrt(1 - x²) is largest at the outer end.

    Outside [-1, 1] NaN is possible, or certain.
    """
    outer = (np.abs(x[0]) + e[0]) * (1 + DOUBLE)
    inside = e[0] / np.sqrt((1 - outer) * (1 + outer))
    return np.where(e[0] == 0, ZERO, np.where(outer < 1, inside, np.where(np.abs(x[0]) - e[0] > 1, ZERO, INF)))


def _saturating(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of tanh, whose derivative 1/cosh² is largest at the end nearest to 0."""
    c = np.cosh(_gap(x[0], e[0]))
    bound: LaneVector = e[0] / (c * c)
    return bound


def _angle(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of atan2: a point moved by rho turns by at most asin(rho/R), seen from the origin.

    The cut is the negative x axis.
    """
    (y, x0), (dy, dx) = x, e
    t = np.hypot(dy, dx) / np.hypot(y, x0)
    turned = np.where((dy == 0) & (dx == 0), ZERO, np.where(t < 1, t / np.sqrt((1 - t) * (1 + t)), INF))
    return np.where((np.abs(y) <= dy) & (dy > 0) & (x0 < dx), INF, turned)


BOUNDS["sin"] = ErrorRule(_wave(np.cos), "approximated")
BOUNDS["cos"] = ErrorRule(_wave(np.sin), "approximated")
BOUNDS["tan"] = ErrorRule(_tangent, "approximated")
BOUNDS["asin"] = ErrorRule(_arc, "approximated")
BOUNDS["acos"] = ErrorRule(_arc, "approximated")
BOUNDS["tanh"] = ErrorRule(_saturating, "approximated")
BOUNDS["atan2"] = ErrorRule(_angle, "approximated", zero=lambda x: x[0] == 0)


# ---- selections -------------------------------------------------------------------------------------------------


def _extreme(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of min or max: the largest operand error, or that of an operand that certainly wins."""
    certain = np.abs(x[0] - x[1]) > e[0] + e[1]
    return np.where(certain, np.where(r == x[0], e[0], e[1]), np.maximum(e[0], e[1]))


def _selection(x: Arguments, e: Arguments, r: LaneVector, u: float) -> LaneVector:
    """Return the error bound of a `select`, which includes the other alternative if the condition is uncertain."""
    (c, a, b), (dc, da, db) = x, e
    taken = da if da is db else np.where(c, da, db)
    if dc is ZERO:
        return taken
    # If the other arm is taken, the result moves by the distance of the arms and is as wrong as the other arm.
    jump = np.abs(a.astype(F64) - b.astype(F64)) + np.where(c, db, da)
    wide = np.where(dc > 0, np.maximum(taken, jump), taken)
    return np.where(np.isnan(wide), INF, wide)


def _discrete_selection(x: Arguments, e: Arguments, r: LaneVector) -> LaneVector:
    (c, a, b), (dc, da, db) = x, e
    taken = da if da is db else np.where(c, da, db)
    return taken if dc is ZERO else np.where(dc > 0, np.where(a == b, np.maximum(da, db), INF), taken)


BOUNDS["min"] = ErrorRule(_extreme, "kept")
BOUNDS["max"] = ErrorRule(_extreme, "kept")
BOUNDS["select"] = ErrorRule(_selection, "kept", raw=True, discrete=_discrete_selection)
