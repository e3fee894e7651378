"""Represent what is known of a value before a launch: an interval of two size expressions, and what must hold for it.

A span is exact if both ends are one expression. Sums, differences and products of spans are spans that hold the result
for all operands, so a bound stays a bound if a value is subtracted, negative or unknown. A *check* says that the
arithmetic of the kernel did not leave its type, where the span takes it as arithmetic of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.types import Scalar
from . import algebra as a
from .expressions import INT64, ONE, SAFE, WIDE, ZERO, Expr, bounds_of, const


@dataclass(frozen=True)
class Around:
    """Represent a loop around a point, or a condition that holds there, and what is around that.

    Attributes:
        outer: What is around the loop or condition; None if there is nothing.
        begin: First index of the loop, or the condition.
        end: The index after the last one.
        number: Number of the index; -1 for a condition.
    """

    outer: Around | None
    begin: Expr
    end: Expr = ZERO
    number: int = -1


@dataclass(frozen=True)
class Check:
    """Represent the claim low <= value <= high, at all points that the loops and conditions around lead to.

    Attributes:
        value: The value.
        low: The least number that it may be.
        high: The greatest number that it may be.
        around: The loops and conditions around.
    """

    value: Expr
    low: int
    high: int
    around: Around | None


Checks = frozenset[Check]
NONE: Checks = frozenset()
"""The empty set of checks."""


@dataclass(frozen=True)
class Span:
    """Represent what is known of a value: the interval low .. high of two size expressions.

    Attributes:
        low: The lower end; None if it is not known.
        high: The upper end; None if it is not known.
        checks: The checks that must hold for the interval to be right.
    """

    low: Expr | None = None
    high: Expr | None = None
    checks: Checks = NONE

    @property
    def exact(self) -> Expr | None:
        """Return the value itself if it is known, and else None."""
        return self.low if self.low is not None and self.low is self.high else None

    def given(self, checks: Checks) -> Span:
        """Return the span under more checks."""
        return self if checks <= self.checks else Span(self.low, self.high, self.checks | checks)


UNKNOWN = Span()
"""The span of a value of which nothing is known."""


def exactly(value: Expr, checks: Checks = NONE) -> Span:
    """Return the span of a value that is known."""
    return Span(value, value, checks)


NOTHING = exactly(ZERO)
"""The span of 0."""


def apply(spans: tuple[Span, ...], make: Callable[..., Expr], *rest: bool) -> Span:
    """Return the span of the result of an operation on spans.

    Args:
        spans: The spans of the operands.
        make: Makes the expression of the result from expressions of the operands.
        rest: For each operand, True if the result grows with it and False if it falls. Without these, the result is
            known
        only if all operands are.
    """
    checks = NONE.union(*[s.checks for s in spans])
    values = [s.exact for s in spans]
    if None not in values:
        return exactly(make(*values), checks)
    # The result is least where operands that it grows with are least and the others are greatest.
    lows = [s.low if up else s.high for s, up in zip(spans, rest)]
    highs = [s.high if up else s.low for s, up in zip(spans, rest)]
    low = None if None in lows or not rest else make(*lows)
    return Span(low, None if None in highs or not rest else make(*highs), checks)


def add(x: Span, y: Span) -> Span:
    """Return the span of a sum."""
    return apply((x, y), a.add, True, True)


def sub(x: Span, y: Span) -> Span:
    """Return the span of a difference."""
    return apply((x, y), a.sub, True, False)


def mul(x: Span, y: Span) -> Span:
    """Return the span of a product.

    It is known if both factors are known, if one factor is a constant, or if both factors are not negative.
    """
    signs = [s.low is not None and s.low.low >= 0 for s in (x, y)]
    if all(signs):
        return apply((x, y), a.mul, True, True)
    for known, other in ((x.exact, y), (y.exact, x)):
        factor = None if known is None else a.value_of(known)
        if factor is not None:
            checks = x.checks | y.checks
            return apply((other,), lambda e: a.scale(e, factor), factor > 0).given(checks)  # noqa: B023
    return apply((x, y), a.mul)


def minimum(x: Span, y: Span) -> Span:
    """Return the span of the lesser of two values, which is at most either of them, even if the other is unknown."""
    found = apply((x, y), a.minimum, True, True)
    return found if found.high is not None else Span(found.low, x.high or y.high, found.checks)


def maximum(x: Span, y: Span) -> Span:
    """Return the span of the larger of two values, which is at least either of them, even if the other is unknown."""
    found = apply((x, y), a.maximum, True, True)
    return found if found.low is not None else Span(x.low or y.low, found.high, found.checks)


def floordiv(x: Span, y: Span) -> Span:
    """Return the span of a quotient, which grows with x if the divisor is known to be positive."""
    divisor = y.exact
    if divisor is not None and divisor.low > 0:
        return apply((x,), lambda e: a.floordiv(e, divisor), True).given(y.checks)
    return apply((x, y), a.floordiv)


def mod(x: Span, y: Span) -> Span:
    """Return the span of a remainder, which lies between 0 and a positive divisor."""
    found = apply((x, y), a.mod)
    if found.exact is None and y.low is not None and y.low.low > 0 and y.high is not None:
        return Span(ZERO, a.sub(y.high, ONE), found.checks)
    return found


def union(x: Span, y: Span) -> Span:
    """Return the span of a value that is either of two values."""
    if x.exact is not None and x.exact == y.exact:
        return x.given(y.checks)
    low = None if x.low is None or y.low is None else a.minimum(x.low, y.low)
    high = None if x.high is None or y.high is None else a.maximum(x.high, y.high)
    return Span(low, high if high is not low else None, x.checks | y.checks)


def choose(condition: Span, x: Span, y: Span) -> Span:
    """Return the span of x where the condition holds, and of y elsewhere."""
    c = condition.exact
    if c is None:
        return union(x, y).given(condition.checks)
    if c.kind == "const":
        return (x if c.data[0] else y).given(condition.checks)
    values = x.exact, y.exact
    checks = condition.checks | x.checks | y.checks
    if values[0] is not None and values[1] is not None:
        if values[0] == values[1]:
            return exactly(values[0], checks)
        if values[0].is_real:
            return Span(checks=checks)
        make = a.choose if values[0].is_condition else a.when
        return exactly(make(c, values[0], values[1]), checks)
    low = None if x.low is None or y.low is None else a.when(c, x.low, y.low)
    high = None if x.high is None or y.high is None else a.when(c, x.high, y.high)
    return Span(low, high, checks)


def fitted(span: Span, dtype: Scalar, around: Around | None) -> Span:
    """Return the span of a result of this type, under the check that the result did not wrap, unless this is certain.

    Args:
        span: The span of the result in whole numbers.
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
    return made if len(ends) == 2 else Span(checks=made.checks)


def _fit(value: Expr, dtype: Scalar, around: Around | None, make: Callable[[Checks], Span], checks: Checks) -> Span:
    """Return the span that `make` makes of the check that a value fits its type.

    There is no check if the value always fits.
    """
    low, high = bounds_of(dtype)
    if dtype.bits == 64:
        high = INT64[1]
    if low <= value.low and value.high <= high:
        return make(NONE)
    # An evaluation that leaves its own 64 bits is not exact, so the check needs no more than SAFE.
    if dtype.bits == 64:
        low, high = max(low, SAFE[0]), SAFE[1]
    return make(frozenset((Check(value, low, high, around),)))


def leaf(value: Expr, dtype: Scalar, around: Around | None) -> Span:
    """Return the span of an element or argument, under the check that a number of 64 bits lies in WIDE."""
    if dtype.is_int and dtype.bits == 64:
        wide = replace(value, low=INT64[0], high=INT64[1])
        return exactly(value, frozenset((Check(wide, WIDE[0] if dtype.is_signed else 0, WIDE[1], around),)))
    return exactly(value)


def number(value: int | float | bool) -> Span:
    """Return the span of a constant."""
    return exactly(const(value))
