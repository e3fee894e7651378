"""Arithmetic of intervals is sound: what numbers give lies in what their intervals give, infinite ends included."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stackgrad.compiler.analysis import intervals as iv
from stackgrad.compiler.analysis.intervals import ALL, EMPTY, INFINITY, Interval, NumberInterval

NUMBERS = st.one_of(st.integers(-6, 6), st.integers(-(2**70), 2**70))
Drawn = tuple[NumberInterval, int]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """An interval and a number in it; an end may be infinite."""
    low, number, high = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
    ends = draw(st.tuples(st.sampled_from([low, low, -INFINITY]), st.sampled_from([high, high, INFINITY])))
    return Interval(*ends), number


FUNCTIONS: dict[str, tuple[Callable[..., NumberInterval], Callable[[int, int], int]]] = {
    "product": (iv.product, operator.mul),
    "floor_quotient": (iv.floor_quotient, lambda x, y: x // y if y else 0),
    "remainder": (iv.remainder, lambda x, y: x % y if y else 0),
    "bitwise_and": (iv.bitwise_and, operator.and_),
    "bitwise_or": (iv.bitwise_or, operator.or_),
    "bitwise_xor": (iv.bitwise_xor, operator.xor),
    "absolute": (lambda a, b: iv.absolute(a), lambda x, y: abs(x)),
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(a=drawn(), b=drawn())
def test_results_lie_inside(name: str, a: Drawn, b: Drawn) -> None:
    of_intervals, of_numbers = FUNCTIONS[name]
    found = of_intervals(a[0], b[0])
    assert found.low <= of_numbers(a[1], b[1]) <= found.high


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(a=drawn(), places=st.integers(-1, 40), left=st.booleans())
def test_shifts_lie_inside(a: Drawn, places: int, left: bool) -> None:
    found = iv.shifted(a[0], iv.point(places), 32, left)
    if not 0 <= places < 32:
        assert found == ALL
    else:
        assert found.low <= (a[1] << places if left else a[1] >> places) <= found.high


@pytest.mark.expensive
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(terms=st.lists(st.tuples(drawn(), st.integers(-3, 3).filter(bool)), max_size=4), constant=st.integers(-9, 9))
def test_sums_lie_between_their_ends(terms: list[tuple[Drawn, int]], constant: int) -> None:
    within = [(a, factor) for (a, _), factor in terms]
    found = constant + sum(number * factor for (_, number), factor in terms)
    assert iv.least_sum(constant, within) <= found <= iv.greatest_sum(constant, within)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(a=drawn(), b=drawn())
def test_sets(a: Drawn, b: Drawn) -> None:
    joined, common = iv.join(a[0], b[0]), iv.meet(a[0], b[0])
    for number in (a[1], b[1]):
        assert joined.low <= number <= joined.high
        in_both = all(low <= number <= high for low, high in (a[0], b[0]))
        assert in_both == (common.low <= number <= common.high)
    assert iv.join(EMPTY, a[0]) == a[0] == iv.meet(ALL, a[0])
    assert iv.is_empty(EMPTY) and not iv.is_empty(a[0])


@pytest.mark.parametrize(
    ("old", "new", "wide"),
    [
        (Interval(0, 1), Interval(0, 1), (0, 1)),
        (Interval(0, 1), Interval(0, 5), (0, 8)),
        (Interval(2, 3), Interval(1, 3), (0, 3)),
        (Interval(0, 1), Interval(-5, 9), (-8, 16)),
        (Interval(-5, 9), Interval(-5, INFINITY), (-5, INFINITY)),
    ],
)
def test_ends_that_grow_are_moved_outward(old: NumberInterval, new: NumberInterval, wide: tuple[float, float]) -> None:
    assert iv.widened(old, new, lambda end: end if math.isinf(end) else 1 << int(end).bit_length()) == wide


def test_the_index_of_a_loop() -> None:
    begin, end = Interval(0, 2), Interval(5, 9)
    assert iv.index_interval(begin, end, 3, operator.add) == (0, 8)
    assert iv.index_interval(end, begin, -1, operator.add) == (1, 9)
    assert iv.is_empty(iv.index_interval(end, begin, 1, operator.add))
