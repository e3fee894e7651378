"""What is known of a value before a launch: an interval of two size expressions, and what must hold for it.

A span is exact if both ends are one expression. Sums, differences and products of spans are spans that hold the result
whatever the operands are, so a bound stays a bound where a value is subtracted, negative or unknown. A *check* says
that the arithmetic of the kernel did not leave its type where the span takes it as that of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.types import Scalar
from . import algebra as a
from .expressions import INT64, ONE, SAFE, WIDE, ZERO, Expr, bounds_of, const


@dataclass(frozen=True)
class Around:
    """A loop around, with the id of its index, or a condition that holds; and what is around that."""

    outer: Around | None
    begin: Expr
    end: Expr = ZERO
    number: int = -1


@dataclass(frozen=True)
class Check:
    """low <= value <= high, wherever the loops and conditions around it lead."""

    value: Expr
    low: int
    high: int
    around: Around | None


Checks = frozenset[Check]
NONE: Checks = frozenset()


@dataclass(frozen=True)
class Span:
    """The interval low .. high; an end that is not known is None."""

    low: Expr | None = None
    high: Expr | None = None
    checks: Checks = NONE

    @property
    def exact(self) -> Expr | None:
        """The value itself, if it is known."""
        return self.low if self.low is not None and self.low is self.high else None

    def given(self, checks: Checks) -> Span:
        """The same under more checks."""
        return self if checks <= self.checks else Span(self.low, self.high, self.checks | checks)


UNKNOWN = Span()


def exactly(value: Expr, checks: Checks = NONE) -> Span:
    """A value that is known."""
    return Span(value, value, checks)


NOTHING = exactly(ZERO)


def apply(spans: tuple[Span, ...], make: Callable[..., Expr], *rest: bool) -> Span:
    """What an operation makes of spans: for each operand, whether the result grows with it."""
    checks = NONE.union(*[s.checks for s in spans])
    values = [s.exact for s in spans]
    if None not in values:
        return exactly(make(*values), checks)
    lows = [s.low if up else s.high for s, up in zip(spans, rest)]
    highs = [s.high if up else s.low for s, up in zip(spans, rest)]
    low = None if None in lows or not rest else make(*lows)
    return Span(low, None if None in highs or not rest else make(*highs), checks)


def add(x: Span, y: Span) -> Span:
    """The sum."""
    return apply((x, y), a.add, True, True)


def sub(x: Span, y: Span) -> Span:
    """The difference."""
    return apply((x, y), a.sub, True, False)


def mul(x: Span, y: Span) -> Span:
    """The product; of two numbers below zero only where both are known."""
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
    """The least: at most either, though the other is unknown."""
    found = apply((x, y), a.minimum, True, True)
    return found if found.high is not None else Span(found.low, x.high or y.high, found.checks)


def maximum(x: Span, y: Span) -> Span:
    """The largest: at least either, though the other is unknown."""
    found = apply((x, y), a.maximum, True, True)
    return found if found.low is not None else Span(x.low or y.low, found.high, found.checks)


def floordiv(x: Span, y: Span) -> Span:
    """The quotient; grows with x for a divisor that is known to be positive."""
    divisor = y.exact
    if divisor is not None and divisor.low > 0:
        return apply((x,), lambda e: a.floordiv(e, divisor), True).given(y.checks)
    return apply((x, y), a.floordiv)


def mod(x: Span, y: Span) -> Span:
    """The remainder: between 0 and the divisor, of a positive one."""
    found = apply((x, y), a.mod)
    if found.exact is None and y.low is not None and y.low.low > 0 and y.high is not None:
        return Span(ZERO, a.sub(y.high, ONE), found.checks)
    return found


def union(x: Span, y: Span) -> Span:
    """Either of two values."""
    if x.exact is not None and x.exact == y.exact:
        return x.given(y.checks)
    low = None if x.low is None or y.low is None else a.minimum(x.low, y.low)
    high = None if x.high is None or y.high is None else a.maximum(x.high, y.high)
    return Span(low, high if high is not low else None, x.checks | y.checks)


def choose(condition: Span, x: Span, y: Span) -> Span:
    """x if the condition holds, else y."""
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
    """The span of a result of this type: under the check that it did not wrap, unless that is plain."""
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
    low, high = bounds_of(dtype)
    if dtype.bits == 64:
        high = INT64[1]
    if low <= value.low and value.high <= high:
        return make(NONE)
    if dtype.bits == 64:  # an evaluation that leaves its own 64 bits is no exact one, so what it finds is as it is
        low, high = max(low, SAFE[0]), SAFE[1]
    return make(frozenset((Check(value, low, high, around),)))


def leaf(value: Expr, dtype: Scalar, around: Around | None) -> Span:
    """An element or an argument: one of 64 bits must lie in WIDE."""
    if dtype.is_int and dtype.bits == 64:
        wide = replace(value, low=INT64[0], high=INT64[1])
        return exactly(value, frozenset((Check(wide, WIDE[0] if dtype.is_signed else 0, WIDE[1], around),)))
    return exactly(value)


def number(value: int | float | bool) -> Span:
    """A constant."""
    return exactly(const(value))
