"""Simplified expressions have the value of the plain ones: random trees, ranges and choices, point by point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stackgrad.compiler.errors import ParseError
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import f64, i32, u1
from stackgrad.compiler.sizing import algebra as a
from stackgrad.compiler.sizing import ranges
from stackgrad.compiler.sizing.evaluate import EVALUATE, Evaluator, InexactSizes
from stackgrad.compiler.sizing.expressions import (
    KINDS,
    ONE,
    OVER,
    TRUE,
    ZERO,
    SizeExpr,
    argument,
    const,
    node,
    read,
    shape,
    variable,
    walk,
)
from stackgrad.compiler.sizing.host import WORDS
from stackgrad.compiler.sizing.stored_sizes import from_rows, to_rows
from stackgrad.compiler.sizing.text import PRINT, numbered, parse_size, print_size
from stackgrad.compiler.sizing.to_kernel import MAKE

HEAD = parse_kernel("kernel k(x: f64[1], c: i32[1], p: u1[1], m: i32, n: i32) { serial { } }")
M, N = argument("m", i32), argument("n", i32)
OUTER, INNER = 7, 8
ARRAYS = {"x": np.linspace(0, 1, 5), "c": np.array([3, 0, -2, 5, 1], np.int32), "p": np.array([1, 0, 0, 1, 1], bool)}


def element(index: SizeExpr) -> SizeExpr:
    return read("c", i32, (a.mod(index, const(5)),))


def grown(inner: st.SearchStrategy[SizeExpr]) -> st.SearchStrategy[SizeExpr]:
    pair = st.tuples(inner, inner)
    condition = st.tuples(st.sampled_from([a.positive, a.zero]), inner).map(lambda f: f[0](f[1]))
    gate = inner.map(lambda e: a.compare("cmp_lt", read("x", f64, (a.mod(e, const(5)),)), const(0.5)))
    flag = inner.map(lambda e: read("p", u1, (a.mod(e, const(5)),)))
    conditions = condition | gate | flag
    joined = st.tuples(st.sampled_from([a.all_of, a.any_of]), conditions, conditions).map(lambda t: t[0](t[1], t[2]))
    return st.one_of(
        *(pair.map(lambda p, make=make: make(*p)) for make in (a.add, a.sub, a.mul, a.maximum, a.minimum)),
        st.tuples(inner, st.integers(2, 4)).map(lambda t: a.floordiv(t[0], const(t[1]))),
        st.tuples(inner, st.integers(2, 4)).map(lambda t: a.mod(t[0], const(t[1]))),
        st.tuples(conditions | joined | conditions.map(a.negate), inner, inner).map(lambda t: a.select_value(*t)),
        inner.map(element),
    )


LEAVES = st.one_of(
    st.integers(-3, 4).map(const),
    st.sampled_from([M, N, shape("c", 0)]),
    st.sampled_from([variable(OUTER, -4, 9), variable(INNER, -4, 9)]),
)
TREES = st.recursive(LEAVES, grown, max_leaves=7)
BOUNDS = st.sampled_from([ZERO, const(2), M, a.sub(N, ONE), variable(OUTER, -4, 9), a.sub(M, variable(OUTER, -4, 9))])


def at(expr: SizeExpr, scalars: dict[str, int], points: dict[int, int]) -> int:
    for number, value in points.items():
        expr = a.substitute(expr, number, const(value))
    return Evaluator(ARRAYS, scalars).number(expr)


@settings(max_examples=250, deadline=None)
@given(TREES, st.sampled_from(["total", "largest"]), BOUNDS, BOUNDS, st.integers(-2, 5), st.integers(-2, 5))
def test_closed_ranges(body: SizeExpr, kind: str, begin: SizeExpr, end: SizeExpr, m: int, n: int) -> None:
    """A range in closed form, inside another, is the range point by point."""
    scalars = {"m": m, "n": n}
    close = ranges.range_sum if kind == "total" else ranges.range_maximum
    around = {OUTER: (const(-1), const(3))}
    made = close(INNER, begin, end, body, around)
    for i in range(-1, 3):
        first, last = at(begin, scalars, {OUTER: i}), at(end, scalars, {OUTER: i})
        values = [at(body, scalars, {OUTER: i, INNER: j}) for j in range(first, last)]
        right = sum(values) if kind == "total" else max([0, *values])
        assert at(made, scalars, {OUTER: i}) == right, (print_size(made), i)
        assert made.low <= right <= made.high
    outer = close(OUTER, *around[OUTER], made, {})
    found = [at(made, scalars, {OUTER: i}) for i in range(-1, 3)]
    assert at(outer, scalars, {}) == (sum(found) if kind == "total" else max([0, *found]))


def test_a_choice_among_numbers_that_are_zero_ends() -> None:
    """Both are at most zero, and so are both when their signs are changed."""
    nothing = a.floordiv(a.select_value(a.compare("cmp_lt", read("x", f64, (ZERO,)), const(0.5)), ZERO, ONE), const(2))
    assert nothing.low == nothing.high == 0
    assert at(a.select_value(a.positive(M), nothing, ZERO), {"m": 1, "n": 0}, {}) == 0


@settings(max_examples=150, deadline=None)
@given(TREES, st.integers(-2, 5), st.integers(-2, 5), st.integers(-4, 9), st.integers(-4, 9))
def test_vectors_and_numbers_agree(tree: SizeExpr, m: int, n: int, i: int, j: int) -> None:
    """Points of a range are looked at together; each has the value that it has alone, within the bounds."""
    scalars = {"m": m, "n": n}
    points = np.array([i, -4, 0, 9]), np.array([j, 3, 9, -4])
    found = Evaluator(ARRAYS, scalars).at(tree, dict(zip((OUTER, INNER), points)))
    for place, value in enumerate(np.broadcast_to(found, 4).tolist()):
        inner = {OUTER: int(points[0][place]), INNER: int(points[1][place])}
        assert value == at(tree, scalars, inner)
        assert tree.low <= value <= tree.high


@settings(max_examples=150, deadline=None)
@given(TREES, st.sampled_from(["total", "largest"]), BOUNDS, BOUNDS)
def test_text_and_rows(body: SizeExpr, kind: str, begin: SizeExpr, end: SizeExpr) -> None:
    """Printed, parsed and kept expressions are what they were."""
    around = {OUTER: (const(-1), const(3))}
    inner = (ranges.range_sum if kind == "total" else ranges.range_maximum)(INNER, begin, end, body, around)
    tree = a.range_node(kind, OUTER, const(-1), const(3), inner)
    parsed = parse_size(print_size(tree), HEAD)
    for m in (-2, 3):
        scalars = {"m": m, "n": 2}
        assert at(parsed, scalars, {}) == at(tree, scalars, {}), print_size(tree)
    assert print_size(parsed) == print_size(parse_size(print_size(parsed), HEAD))
    rows, (place,) = to_rows([tree])
    again = from_rows(rows)[place]
    assert again == tree and (again.low, again.high) == (tree.low, tree.high)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "m",
        "-m + 3",
        "2*m - n + 1",
        "shape(c, 0)",
        "c[m + 1]",
        "max(0, n - m)",
        "min(m, n)",
        "n * (m // 2)",
        "if(m < n, 1, 0)",
        "if((0 < m) and (not p[0]), n, 2)",
        "sum($i in 0 .. m: max(0, c[$i]))",
        "max($i in m .. shape(c, 0): sum($j in 0 .. c[$i]: if(x[$j] < 0.5, 1, 0)))",
        "if(x[0] != -1e-07, 1, 0)",
    ],
)
def test_texts_are_stable(text: str) -> None:
    parsed = parse_size(text, HEAD)
    assert print_size(parsed) == text and numbered(parsed) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m +", "expected an operand"),
        ("q", "expected a name of an argument"),
        ("z[0]", "no array 'z'"),
        ("max(m", "expected"),
        ("sum($i in 0 .. m, 1)", "expected ':'"),
        ("m n", "expected the end"),
        ("shape(c, 1.5)", "expected an axis"),
        (f"shape(c, {1 << 70})", "expected an axis of 64 bits"),
        ("9" * 5000, "expected an integer"),
    ],
)
def test_texts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_size(text, HEAD)


def test_errors_show_the_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_size("m + z[0]", HEAD)
    assert str(caught.value) == (
        "<size expression>:1:5: the kernel has no array 'z', found 'z'\n    m + z[0]\n        ^"
    )


def test_rows_that_are_none() -> None:
    for rows in ([["nothing", [], [], 0, 0]], [["not", [], [0], 0, 1]], [["max", [], [1, 0], 0, 1]]):
        with pytest.raises(ValueError, match="not a size expression"):
            from_rows(rows)


def test_closed_forms_leave_no_range() -> None:
    """What an argument, a shape or an index alone decides takes no loop; an element does."""
    index = variable(OUTER, 0, 2**31 - 1)
    around = {OUTER: (ZERO, N)}
    triangle = ranges.range_length(ZERO, a.sub(N, index), around)
    for body in (
        ONE,
        index,
        triangle,
        a.select_value(a.positive(a.sub(const(4), index)), M, ZERO),
        a.maximum(M, index),
        a.mul(M, index),
        a.select_value(a.zero(a.sub(index, M)), N, ZERO),
    ):
        for close in (ranges.range_sum, ranges.range_maximum):
            made = close(OUTER, ZERO, N, body, {})
            assert not any(e.kind in OVER for e in walk(made)), print_size(made)
    assert ranges.range_sum(OUTER, ZERO, N, element(index), {}).kind == "total"
    assert a.sub(a.mul(M, N), a.mul(N, M)) == ZERO and a.sub(triangle, triangle) == ZERO


def test_every_kind_has_its_rows() -> None:
    assert set(EVALUATE) == set(PRINT) == set(KINDS)
    assert set(MAKE) | OVER | {"var"} == set(WORDS) | OVER | {"var"} == set(KINDS)


def test_no_element_is_read_in_vain() -> None:
    """Neither beyond a condition nor in an empty range; one outside its array says that nothing is known."""
    wrong: Any = read("c", i32, (const(99),))
    guarded = (
        a.select_value(a.positive(M), wrong, ONE),
        ranges.range_sum(OUTER, ZERO, M, wrong, {}),
        ranges.range_maximum(OUTER, ZERO, M, a.select_value(a.positive(wrong), N, ZERO), {}),
        a.select_value(a.all_of(a.positive(M), a.positive(wrong)), ZERO, ONE),
        ranges.range_sum(
            OUTER, ZERO, M, a.select_value(a.positive(a.sub(variable(OUTER, -9, 9), wrong)), ONE, ZERO), {}
        ),
    )
    for expr in guarded:
        Evaluator(ARRAYS, {"m": 0, "n": 3}).number(expr)
        with pytest.raises(InexactSizes):
            Evaluator(ARRAYS, {"m": 1, "n": 3}).number(expr)
    assert node("const", (), (1,), 1, 1) == ONE and TRUE != ONE
