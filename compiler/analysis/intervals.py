"""This module defines intervals, and the arithmetic of intervals of numbers that all analyses share.

An interval is closed: it holds its ends, `low` and `high`. An infinite end means that nothing bounds the value on that
side. The ends of an interval of integers are Python integers, so they are exact; those of reals are floats.

    product((-1, 2), (3, 5))  →  (-5, 10)        join((0, 1), (3, 4))  →  (0, 4)

The functions compute with mathematical numbers. `interval_rules` adds the rounding or wrapping of results to a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..ir.types import Scalar

Number = int | float
INFINITY = math.inf

End = TypeVar("End")
EndOut = TypeVar("EndOut", covariant=True)


class Interval(NamedTuple, Generic[End]):
    """Represent all values between two ends, which belong to the interval.

    Attributes:
        low: the least value.
        high: the greatest value.
    """

    low: End
    high: End


NumberInterval = Interval[Number]
"""An interval whose ends are numbers."""

ALL: NumberInterval = Interval(-INFINITY, INFINITY)
EMPTY: NumberInterval = Interval(INFINITY, -INFINITY)
ZERO: NumberInterval = Interval(0, 0)
TRUTH: NumberInterval = Interval(0, 1)
"""The interval of booleans."""


# ---- sets of values -----------------------------------------------------------------------------------------


def point(number: Number) -> NumberInterval:
    """Return the interval that holds one number."""
    return Interval(number, number)


def is_empty(a: NumberInterval) -> bool:
    """Return True if the interval holds no number, which means that the value is never computed."""
    return a.low > a.high


def is_finite(*operands: NumberInterval) -> bool:
    """Return True if no end of the intervals is infinite."""
    return all(abs(end) != INFINITY for a in operands for end in a)


def join(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the smallest interval that contains the intervals a and b."""
    return Interval(min(a.low, b.low), max(a.high, b.high))


def meet(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of the numbers that lie in both a and b."""
    return Interval(max(a.low, b.low), min(a.high, b.high))


def widened(old: NumberInterval, new: NumberInterval, step: Callable[[Number], Number]) -> NumberInterval:
    """Return the new interval with each end that has grown moved further outward, so that growth ends soon.

    Args:
        old: the interval before.
        new: the interval that contains it.
        step: function that returns, for the distance of an end from 0, a distance that is not smaller.
    """
    low = old.low if new.low >= old.low else -step(max(-new.low, 0)) if new.low < 0 else 0
    return Interval(low, old.high if new.high <= old.high else step(max(new.high, 0)))


def magnitude(a: NumberInterval) -> Number:
    """Return the largest absolute value in the interval."""
    return max(abs(a.low), abs(a.high))


def type_interval(t: Scalar) -> NumberInterval:
    """Return the interval of all numbers of a type."""
    return ALL if t.is_real else Interval(*t.limits)


# ---- results that grow or fall with each operand --------------------------------------------------------------


class _HasEnds(Protocol[EndOut]):
    """Describe objects that have a low and a high end, such as intervals of numbers and of size expressions."""

    @property
    def low(self) -> EndOut: ...

    @property
    def high(self) -> EndOut: ...


def extreme_operands(operands: Sequence[_HasEnds[End]], grows: Sequence[bool]) -> tuple[list[End], list[End]]:
    """Return the ends of the operands at which the result is least, and those at which it is greatest.

    Args:
        operands: the intervals of the operands, with ends of any kind.
        grows: for each operand, True if the result grows with it and False if it falls.
    """
    lows = [a.low if up else a.high for a, up in zip(operands, grows)]
    return lows, [a.high if up else a.low for a, up in zip(operands, grows)]


def index_interval(
    begin: Interval[End], end: Interval[End], step: int, moved: Callable[[End, int], End]
) -> Interval[End]:
    """Return the interval of the index of a loop, which runs up to `end` (down to `end` if `step` is negative).

    Args:
        begin: the interval of the first index.
        end: the interval of the index at which the loop ends, and which it does not visit.
        step: the distance of two indices.
        moved: function that adds an integer to an end.
    """
    return Interval(begin.low, moved(end.high, -1)) if step > 0 else Interval(moved(end.low, 1), begin.high)


# ---- arithmetic -----------------------------------------------------------------------------------------------


def times(a: Number, b: Number) -> Number:
    """Return the product of two interval ends, in which 0 times infinity is 0."""
    return 0 if a == 0 or b == 0 else a * b


def product(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of the products of a number of a and a number of b."""
    return corners(times, a, b)


def corners(f: Callable[[Number, Number], Number], a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of the results of a function that is monotonic in each operand if the other is fixed."""
    # The extremes of such a function lie at the corners of the box of the operands.
    ends = [f(x, y) for x in a for y in b]
    return Interval(min(ends), max(ends))


def least_sum(constant: int, terms: Iterable[tuple[NumberInterval, int]]) -> Number:
    """Return the least value of a constant plus terms, each given as the interval of a value and its factor."""
    return constant + sum(a.low * factor if factor > 0 else a.high * factor for a, factor in terms)


def greatest_sum(constant: int, terms: Iterable[tuple[NumberInterval, int]]) -> Number:
    """Return the greatest value of a constant plus terms, each given as the interval of a value and its factor."""
    return constant + sum(a.high * factor if factor > 0 else a.low * factor for a, factor in terms)


def absolute(a: NumberInterval) -> NumberInterval:
    """Return the interval of the absolute values of the numbers in a."""
    return Interval(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), magnitude(a))


# ---- whole numbers ----------------------------------------------------------------------------------------------


def floor_quotient(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of floor quotients of integers; a division by 0 gives 0, or ends the launch in debug mode."""
    if not is_finite(a):
        return ALL
    if b.low > 0:
        # A divisor that grows without bound leaves -1 of a negative number, and 0 of all others.
        return corners(lambda x, y: -int(x < 0) if y == INFINITY else int(x) // int(y), a, b)
    # The divisor is an integer, so the quotient is no larger than the dividend, up to the rounding.
    most = magnitude(a) + 1
    return Interval(-most, most)


def remainder(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of remainders of integers, with the sign of the divisor; a remainder by 0 counts as 0."""
    if b.low > 0 and a.low >= 0 and a.high < b.low:
        return a
    return Interval(min(b.low + 1, 0), max(b.high - 1, 0))


def bitwise_and(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of `x & m`: it lies between 0 and m for a mask m that is not negative."""
    masks = [m.high for m in (a, b) if m.low >= 0]
    return Interval(0, min(masks)) if masks else ALL


def bitwise_or(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of `x | y` of numbers that are not negative: no bit is above the highest bit of both."""
    if min(a.low, b.low) < 0 or not is_finite(a, b):
        return ALL
    return Interval(max(a.low, b.low), (1 << int(max(a.high, b.high)).bit_length()) - 1)


def bitwise_xor(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of `x ^ y` of numbers that are not negative."""
    return Interval(0, bitwise_or(a, b).high) if min(a.low, b.low) >= 0 else ALL


def shifted(a: NumberInterval, places: NumberInterval, bits: int, left: bool) -> NumberInterval:
    """Return the interval of a shift of a number that is not negative by a known number of places.

    Args:
        a: the interval of the number.
        places: the interval of the number of places.
        bits: the number of bits of the type; the number of places is taken modulo this number.
        left: True for a left shift, False for a right shift.
    """
    if places.low != places.high or not 0 <= places.low < bits or a.low < 0 or not is_finite(a):
        return ALL
    low, high, by = int(a.low), int(a.high), int(places.low)
    return Interval(low << by, high << by) if left else Interval(low >> by, high >> by)
