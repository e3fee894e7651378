"""This module computes the error bound of one operation's result, with the rounding of the operation included.

Let r be the result on the reference, f the exact function, x' the operands in some other executor, and p >= |f(x') -
f(x)| the value that an entry of the table in `rules.py` gives. With unit roundoff u and k the ulps of the operation's
entry,

  * rounded (add, sub, mul, div, sqrt, inv): every executor rounds f correctly, so equal operands give equal results: e
    = 0 where p = 0, else p + 2u (|r| + p), half an ulp for each of the two executors. If executors may contract, a
    rounding may be missing in the other executor: where p = 0, e = |f(x) - r|, which double precision tells for f16 and
    f32;
  * approximated (exp, sin, ...): e = p + c (|r| + p), c = 2u (k + own) / (1 - 2u (k + own)), where own is the error of
    the reference, half an ulp below f64 and k ulps in f64; an exact zero of the function stays exact;
  * kept (neg, abs, min, max, floor, ...): nothing is rounded, e = p.

Products and quotients add the least subnormal, approximated functions add k + own times the least subnormal. A result
that may overflow, or that may leave the domain, has infinite error. Errors are computed in f64; `SLACK` covers the
rounding of that, once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ....compiler.ir.ops import OPS
from ....compiler.ir.types import Scalar
from ....reference.frame import LaneVector
from ....reference.scalar import NUMPY
from . import jumps
from .rules import BOUNDS, F64, INF, ZERO, ErrorRule, join

ROWS = (jumps,)
"""Modules that fill BOUNDS beside `rules`. They are imported for this effect."""

SLACK = 1.0 + 1e-9
"""Factor that covers the f64 rounding of error arithmetic: some millions of dependent operations at 2^-53 each."""


@dataclass(frozen=True)
class RoundingFormat:
    """A `RoundingFormat` holds constants of a real type: unit roundoff, least and greatest numbers.

    Attributes:
        u: the unit roundoff, including results in f16 that are results in f32 rounded again.
        tiny: the least subnormal number.
        normal: the least normal number.
        most: the greatest finite number.
    """

    u: float
    tiny: float
    normal: float
    most: float

    @property
    def safe(self) -> float:
        """Return a magnitude below which the result and error of one operation cannot overflow."""
        return self.most / 4


FORMATS = {
    "f16": RoundingFormat(2.0**-11 * (1 + 2.0**-12), 2.0**-24, 2.0**-14, 65504.0),
    "f32": RoundingFormat(2.0**-24, 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)),
    "f64": RoundingFormat(2.0**-53, 2.0**-1074, 2.0**-1022, float(np.finfo(np.float64).max)),
}

Arguments = Sequence[LaneVector]


class OperationBound:
    """An `OperationBound` holds the function `of`, which returns the error bound of one operation on one type."""

    __slots__ = ("of",)

    def __init__(self, of: Callable[[Arguments, Arguments, LaneVector], LaneVector]) -> None:
        self.of = of


def plan_operation(name: str, dtype: Scalar, precise: bool) -> OperationBound:
    """Return the rule that bounds the error of an operation on operands of a type.

    Args:
        name: the name of the operation.
        dtype: the type of its last operand.
        precise: True if executors round as IEEE says and do not contract.
    """
    rule = BOUNDS[name]
    if not dtype.is_real:
        return OperationBound(rule.discrete or _joined)
    if rule.kind == "discrete":
        return OperationBound(_DiscreteBound(rule).of)
    fmt = FORMATS[dtype.name]
    if rule.kind == "kept":
        return OperationBound(_UnroundedBound(rule, fmt, precise).of)
    if rule.kind == "rounded" or name == "rcp" and precise:
        return OperationBound(_RoundedBound(rule, fmt, name, dtype, precise).of)
    ulps = OPS[name].ulps
    own = ulps if dtype.bits == 64 else 0.5
    if dtype.bits == 16:
        # A result in f16 is a result in f32 rounded again: half an ulp more, and an ulp of f32 is 2^-13 ulps of f16.
        ulps = 0.5 + ulps * 2.0**-13
    return OperationBound(_ApproximatedBound(rule, fmt, 2 * fmt.u * (ulps + own), fmt.tiny * (ulps + own)).of)


def _joined(args: Arguments, errors: Arguments, result: LaneVector) -> LaneVector:
    return join(errors)


def certain_lanes(errors: Arguments) -> bool:
    """Return True if the errors of all operands are the constant ZERO; arrays of zeros are not recognized."""
    return all([e is ZERO for e in errors])  # a list: this is asked of every operation


@dataclass(frozen=True)
class _DiscreteBound:
    """This class bounds the error of an integer or boolean result: 0 if all operands are exact, else by a rule."""

    rule: ErrorRule

    def of(self, args: Arguments, errors: Arguments, result: LaneVector) -> LaneVector:
        if certain_lanes(errors):
            return ZERO
        return self.rule.spread([a.astype(F64) for a in args], errors, result, 0.0)


@dataclass(frozen=True)
class _UnroundedBound:
    rule: ErrorRule
    fmt: RoundingFormat
    precise: bool

    def of(self, args: Arguments, errors: Arguments, result: LaneVector) -> LaneVector:
        if certain_lanes(errors) and (self.precise or not self.rule.rounds_inside):
            return ZERO
        if self.rule.raw:
            return self.rule.spread(args, errors, result, self.fmt.u)
        return self.rule.spread([a.astype(F64) for a in args], errors, result.astype(F64), self.fmt.u)


@dataclass(frozen=True)
class _RoundedBound:
    rule: ErrorRule
    fmt: RoundingFormat
    name: str
    dtype: Scalar
    precise: bool

    def of(self, args: Arguments, errors: Arguments, result: LaneVector) -> LaneVector:
        if certain_lanes(errors):
            return ZERO if self.precise else self._own([a.astype(F64) for a in args], errors, result.astype(F64))
        if self.rule.additive:
            for this, that in ((0, 1), (1, 0)):  # adjoints start at zero, and adding to that rounds nothing
                if errors[this] is ZERO and not args[this].any():
                    return errors[that]
        xs, r = [a.astype(F64) for a in args], result.astype(F64)
        p = self.rule.spread(xs, errors, r, self.fmt.u)
        size = np.abs(r) + p
        e = size * (2 * self.fmt.u)
        e += p
        if self.rule.underflows:
            e += self.fmt.tiny
        moved = p != 0  # NaN, such as zero times an infinite error, too
        if self.precise:
            e *= moved
        elif not moved.all():
            e = np.where(moved, e, self._gap(xs, r))
        return e if size.max() < self.fmt.safe else self._repair(xs, errors, r, p, e)

    def _own(self, xs: Arguments, errors: Arguments, r: LaneVector) -> LaneVector:
        gap = self._gap(xs, r)
        if not gap.any():
            return ZERO
        return gap if np.abs(r).max() < self.fmt.safe else self._repair(xs, errors, r, ZERO, gap)

    def _gap(self, xs: Arguments, r: LaneVector) -> LaneVector:
        """Return a bound of |f(x) - r|, the rounding error of a result r.

        It is computed in double precision for narrower types; else it is half an ulp, unless r is known to be exact.
        """
        if self.dtype.bits < 64:
            bound: LaneVector = np.abs(NUMPY[self.name].meaning(*xs) - r)
            return bound
        return np.where(self.rule.exact(xs, r), ZERO, np.abs(r) * self.fmt.u + self.fmt.tiny)

    def _repair(self, xs: Arguments, errors: Arguments, r: LaneVector, p: LaneVector, e: LaneVector) -> LaneVector:
        return _repaired(self.rule, self.fmt, self.precise, xs, errors, r, p, e)


@dataclass(frozen=True)
class _ApproximatedBound:
    """This class bounds the error of an operation, such as sin, whose result executors compute only approximately.

    Attributes:
        rule: the rule of the operation in the table BOUNDS.
        fmt: the real type of the result.
        share: the error of both executors together, as a share of the result.
        least: the same error among subnormals, whose ulp is fixed.
    """

    rule: ErrorRule
    fmt: RoundingFormat
    share: float
    least: float

    def of(self, args: Arguments, errors: Arguments, result: LaneVector) -> LaneVector:
        xs, r = [a.astype(F64) for a in args], result.astype(F64)
        p = ZERO if certain_lanes(errors) else self.rule.spread(xs, errors, r, self.fmt.u)
        size = np.abs(r) + p
        e = size * (self.share / (1 - self.share))
        e += p
        e += self.least
        if not size.all():
            e = np.where((size == 0) & self.rule.zero(xs), ZERO, e)
        if size.max() < self.fmt.safe:
            return e
        return _repaired(self.rule, self.fmt, False, xs, errors, r, p, e)


def _repaired(
    rule: ErrorRule,
    fmt: RoundingFormat,
    rounded: bool,
    xs: Arguments,
    errors: Arguments,
    r: LaneVector,
    p: LaneVector,
    e: LaneVector,
) -> LaneVector:
    """Return the error bound, corrected where a value is not finite or is close to overflow.

    Args:
        rule: the rule of the operation in the table BOUNDS.
        fmt: the real type of the result.
        rounded: True if equal operands give equal results.
        xs: the operands of the operation.
        errors: the error bounds of the operands.
        r: the result on the reference.
        p: the spread that the rule gives.
        e: the error of a regular result.
    """
    regular = np.where(np.abs(r) + e < fmt.most, e, INF)  # NaN too is infinite
    if all([np.isfinite(x).all() for x in (r, *xs)]):
        return regular
    exact = reduce(np.logical_and, [d == 0 for d in errors])
    known = reduce(np.logical_and, [d < INF for d in errors])
    finite = reduce(np.logical_and, [np.isfinite(x) for x in xs])
    pole = np.isinf(r) & (rule.pole(xs) if not rounded else True)
    irregular = np.where(
        exact,
        np.where(np.isnan(r) | pole | np.isfinite(r) & rounded, ZERO, INF),
        np.where(np.isnan(r) & (p == 0), ZERO, INF),
    )
    inside = np.where(np.isfinite(r), regular, irregular)
    outside = np.where(exact & (~np.isfinite(r) | rounded), ZERO, np.where(known, rule.limit(xs, errors, r, e), INF))
    return np.where(known, np.where(finite, inside, outside), INF)


def real_error(
    source: Scalar, target: Scalar, precise: bool, x: LaneVector, e: LaneVector, result: LaneVector
) -> LaneVector:
    """Return the error bound of a cast to a real type, which adds a rounding error unless the cast widens."""
    if source.is_bool or source.is_real and target.bits >= source.bits or target.bits == 64:
        return e
    fmt, wide, r = FORMATS[target.name], x.astype(F64), result.astype(F64)
    if e is ZERO and precise:
        return ZERO
    size = np.abs(r) + e
    grown = np.where(e > 0, e + size * (2 * fmt.u) + fmt.tiny, ZERO if precise else np.abs(wide - r))
    same = ~np.isfinite(wide) & (e < INF)
    return np.where(size < fmt.safe, grown, np.where(same, e, np.where((e == 0) & precise, ZERO, INF)))
