"""This module defines symbolic intervals: bounds of a value as two size expressions, valid under checks.

An interval is exact if both ends are one expression. The sum, difference or product of two intervals holds the result
for all operands in them, so a bound stays a bound if a value is subtracted, negative or unknown. A *check* says that
the arithmetic of the kernel did not leave its type, where the interval assumes arithmetic of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..analysis.intervals import extreme_operands
from ..ir.types import Scalar
from . import algebra as a
from .expressions import INT64, ONE, SAFE, WIDE, ZERO, SizeExpr, const


@dataclass(frozen=True)
class PointContext:
    """A `PointContext` is a loop or condition that encloses a point of a task, linked to the next outer one.

    Attributes:
        outer: What is around the loop or condition; None if there is nothing.
        begin: First index of the loop, or the condition.
        end: The index after the last one.
        number: Number of the index; -1 for a condition.
    """

    outer: PointContext | None
    begin: SizeExpr
    end: SizeExpr = ZERO
    number: int = -1


@dataclass(frozen=True)
class IntervalCheck:
    """An `IntervalCheck` is the condition low <= value <= high at all points of the enclosing loops and conditions.

    Attributes:
        value: The expression that is checked.
        low: The least number that the value may be.
        high: The greatest number that the value may be.
        around: The loops and conditions around the computation of the value.
    """

    value: SizeExpr
    low: int
    high: int
    around: PointContext | None


Checks = frozenset[IntervalCheck]
NONE: Checks = frozenset()
"""The empty set of checks."""


@dataclass(frozen=True)
class SymbolicInterval:
    """A `SymbolicInterval` bounds a value by two size expressions, under checks that must hold.

    Attributes:
        low: The lower end; None if it is not known.
        high: The upper end; None if it is not known.
        checks: The checks that must hold for the interval to be right.
    """

    low: SizeExpr | None = None
    high: SizeExpr | None = None
    checks: Checks = NONE

    @property
    def exact(self) -> SizeExpr | None:
        """Return the expression of the value if both ends of the interval are the same, else None."""
        return self.low if self.low is not None and self.low is self.high else None

    def given(self, checks: Checks) -> SymbolicInterval:
        """Return the same interval, valid only if these further checks hold too."""
        return self if checks <= self.checks else SymbolicInterval(self.low, self.high, self.checks | checks)


UNKNOWN = SymbolicInterval()
"""The interval of a value of which nothing is known."""


def exact_interval(value: SizeExpr, checks: Checks = NONE) -> SymbolicInterval:
    """Return the interval that contains only the value of one expression."""
    return SymbolicInterval(value, value, checks)


NOTHING = exact_interval(ZERO)
"""The interval of 0."""


def apply_operation(
    spans: tuple[SymbolicInterval, ...], make: Callable[..., SizeExpr], *grows: bool
) -> SymbolicInterval:
    """Return the interval of an operation's result, given the intervals of its operands.

    Args:
        spans: The symbolic intervals of the operands.
        make: Makes the expression of the result from expressions of the operands.
        grows: For each operand, True if the result grows with it and False if it falls. Without these, the result is
            known only if all operands are.
    """
    checks = NONE.union(*[s.checks for s in spans])
    values = [s.exact for s in spans]
    if None not in values:
        return exact_interval(make(*values), checks)
    low, high = (make(*ends) if ends and None not in ends else None for ends in extreme_operands(spans, grows))
    return SymbolicInterval(low, high, checks)


def add(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a sum."""
    return apply_operation((x, y), a.add, True, True)


def sub(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a difference."""
    return apply_operation((x, y), a.sub, True, False)


def mul(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a product.

    It is known if both factors are known, if one factor is a constant, or if both factors are not negative.
    """
    signs = [s.low is not None and s.low.low >= 0 for s in (x, y)]
    if all(signs):
        return apply_operation((x, y), a.mul, True, True)
    for known, other in ((x.exact, y), (y.exact, x)):
        factor = None if known is None else a.value_of(known)
        if factor is not None:
            checks = x.checks | y.checks
            return apply_operation((other,), lambda e: a.scale(e, factor), factor > 0).given(checks)  # noqa: B023
    return apply_operation((x, y), a.mul)


def minimum(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the interval of the minimum of two values; its upper end is known even if one value is unknown."""
    found = apply_operation((x, y), a.minimum, True, True)
    return found if found.high is not None else SymbolicInterval(found.low, x.high or y.high, found.checks)


def maximum(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the interval of the maximum of two values; its lower end is known even if one value is unknown."""
    found = apply_operation((x, y), a.maximum, True, True)
    return found if found.low is not None else SymbolicInterval(x.low or y.low, found.high, found.checks)


def floordiv(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the interval of a floor division. Bounds of x give bounds of the quotient if the divisor is positive."""
    divisor = y.exact
    if divisor is not None and divisor.low > 0:
        return apply_operation((x,), lambda e: a.floordiv(e, divisor), True).given(y.checks)
    return apply_operation((x, y), a.floordiv)


def mod(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the interval of a remainder, which is between 0 and the divisor if the divisor is positive."""
    found = apply_operation((x, y), a.mod)
    if found.exact is None and y.low is not None and y.low.low > 0 and y.high is not None:
        return SymbolicInterval(ZERO, a.sub(y.high, ONE), found.checks)
    return found


def union(x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the smallest interval that contains both intervals."""
    if x.exact is not None and x.exact == y.exact:
        return x.given(y.checks)
    low = None if x.low is None or y.low is None else a.minimum(x.low, y.low)
    high = None if x.high is None or y.high is None else a.maximum(x.high, y.high)
    return SymbolicInterval(low, high if high is not low else None, x.checks | y.checks)


def select_interval(condition: SymbolicInterval, x: SymbolicInterval, y: SymbolicInterval) -> SymbolicInterval:
    """Return the interval of a selection: that of x where the condition holds, and of y elsewhere."""
    c = condition.exact
    if c is None:
        return union(x, y).given(condition.checks)
    if c.kind == "const":
        return (x if c.data[0] else y).given(condition.checks)
    values = x.exact, y.exact
    checks = condition.checks | x.checks | y.checks
    if values[0] is not None and values[1] is not None:
        if values[0] == values[1]:
            return exact_interval(values[0], checks)
        if values[0].is_real:
            return SymbolicInterval(checks=checks)
        make = a.select_condition if values[0].is_condition else a.select_value
        return exact_interval(make(c, values[0], values[1]), checks)
    low = None if x.low is None or y.low is None else a.select_value(c, x.low, y.low)
    high = None if x.high is None or y.high is None else a.select_value(c, x.high, y.high)
    return SymbolicInterval(low, high, checks)


def checked_interval(span: SymbolicInterval, dtype: Scalar, around: PointContext | None) -> SymbolicInterval:
    """Return the interval of an operation's result, with the check that the result does not overflow its type.

    Args:
        span: The interval of the result in whole numbers.
        dtype: The type of the result.
        around: The loops and conditions around the operation.
    """
    if not dtype.is_int:
        return span
    if span.exact is not None:
        return _fit(span.exact, dtype, around, lambda checks: span.given(checks), span.checks)
    ends = [e for e in (span.low, span.high) if e is not None]
    made = span
    for end in ends:
        made = _fit(end, dtype, around, lambda checks: made.given(checks), span.checks)  # noqa: B023
        if made.low is None and made.high is None:
            return made
    return made if len(ends) == 2 else SymbolicInterval(checks=made.checks)


def _fit(
    value: SizeExpr,
    dtype: Scalar,
    around: PointContext | None,
    make: Callable[[Checks], SymbolicInterval],
    checks: Checks,
) -> SymbolicInterval:
    """Return the interval that `make` returns for the check that a value fits its type; no check if it always fits."""
    low, high = dtype.limits
    if dtype.bits == 64:
        high = INT64[1]
    if low <= value.low and value.high <= high:
        return make(NONE)
    # An evaluation that leaves its own 64 bits is not exact, so the check needs no more than SAFE.
    if dtype.bits == 64:
        low, high = max(low, SAFE[0]), SAFE[1]
    return make(frozenset((IntervalCheck(value, low, high, around),)))


def leaf_interval(value: SizeExpr, dtype: Scalar, around: PointContext | None) -> SymbolicInterval:
    """Return the interval of an array element or argument. A check bounds 64-bit values, so that their sums fit.

    Args:
        value: The expression of the element or argument.
        dtype: The type of the value.
        around: The loops and conditions around the read, in all of whose iterations the check must hold.
    """
    if dtype.is_int and dtype.bits == 64:
        wide = replace(value, low=INT64[0], high=INT64[1])
        return exact_interval(
            value, frozenset((IntervalCheck(wide, WIDE[0] if dtype.is_signed else 0, WIDE[1], around),))
        )
    return exact_interval(value)


def constant_interval(value: int | float | bool) -> SymbolicInterval:
    """Return the interval that contains only a constant."""
    return exact_interval(const(value))
