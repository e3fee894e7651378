"""Control flow: loops with trip counts by lane, and each way to leave a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Launch = Callable[..., Any]
Each = Callable[[str, str], str]
ORDERS = ("vector", "forward", "reverse")

BUMP = "%{0}: i32 = load x[%0] %{1}: i32 = add %{0}, %{2} store x[%0], %{1}"


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Any:
    return request.param


# ---- loops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("step", [1, 3, -1, -2])
@pytest.mark.parametrize("uniform", [False, True])
def test_for(launch: Launch, order: str, step: int, descending: bool, uniform: bool) -> None:
    """Visited indices, in order, as digits of base 16 with an offset; and the trip count."""
    ends = [(0, 0), (0, 5), (5, 0), (-3, 4), (4, -3), (2, 3), (3, 2)]
    for chosen in [[e] * 3 for e in ends] if uniform else [ends]:
        b, e = (np.array(c, np.int32) for c in zip(*chosen, strict=True))
        n = len(b)
        x, t = np.zeros(n, np.int64), np.zeros(n, np.int32)
        word = " descending" if descending else ""
        ends_text = "%3: i32 = arg b %4: i32 = arg e" if uniform else "%3: i32 = load bs[%2] %4: i32 = load es[%2]"
        launch(
            f"""kernel f(x: i64[1], t: i32[1], bs: i32[1], es: i32[1], b: i32, e: i32) {{
            bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
            {ends_text}
            for %5: i32 in %3 .. %4 step {step}{word} trips %6: i32 {{
              %7: i64 = load x[%2]  %8: i64 = const 16  %9: i64 = mul %7, %8  %10: i32 = const 8  %11: i32 = add %5, %10
              %12: i64 = cast %11  %13: i64 = add %9, %12  store x[%2], %13 }}
            store t[%2], %6 }} }}""",
            x=x,
            t=t,
            bs=b,
            es=e,
            b=int(b[0]),
            e=int(e[0]),
            _order=order,
        )
        for lane in range(n):
            visited = list(range(int(b[lane]), int(e[lane]), step))
            visited = visited[::-1] if descending else visited
            assert x[lane] == sum((k + 8) * 16 ** (len(visited) - 1 - i) for i, k in enumerate(visited))
            assert t[lane] == len(visited)


def test_bounds_are_evaluated_once(launch: Launch, each: Each, order: str) -> None:
    x = np.array([3, 5, 0], np.int32)
    launch(
        each(
            "x: i32[1]",
            """%1: i32 = const 0  %2: i32 = load x[%0]  for %3: i32 in %1 .. %2 {
        %4: i32 = load x[%0]  %5: i32 = const 1  %6: i32 = add %4, %5  store x[%0], %6 }""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [6, 10, 0]


def test_extreme_bounds_do_not_overflow(launch: Launch, each: Each) -> None:
    """2^31 - 1 - (-2^31) does not fit in i32; with a step of 2^30 there are four iterations."""
    x = np.zeros(2, np.int32)
    launch(
        each(
            "x: i32[1]",
            f"""%1: i32 = const -2147483648  %2: i32 = const 2147483647  %3: i32 = const 1
        for %4: i32 in %1 .. %2 step 1073741824 {{ {BUMP.format(5, 6, 3)} }}""",
        ),
        x=x,
    )
    assert x.tolist() == [4, 4]


def test_until_and_trips_of_for(launch: Launch, each: Each, order: str) -> None:
    """Leaves after the iteration in which the index has reached the lane number."""
    x, t = np.zeros((2, 6), np.int32)
    launch(
        each(
            "x: i32[1], t: i32[1]",
            f"""%1: i32 = const 0 %2: i32 = const 4 local s: u1 %3: i32 = const 1
        for %4: i32 in %1 .. %2 until s trips %5: i32 {{ {BUMP.format(6, 7, 3)} %8: u1 = cmp_ge %4, %0 set s, %8 }}
        store t[%0], %5""",
        ),
        x=x,
        t=t,
        _order=order,
    )
    assert x.tolist() == t.tolist() == [1, 2, 3, 4, 4, 4]


def test_while_with_until_and_trips(launch: Launch, each: Each, order: str) -> None:
    """Halves while greater than 1, at most three times."""
    x, t = np.array([0, 1, 2, 7, 1000, 5], np.int32), np.zeros(6, np.int32)
    launch(
        each(
            "x: i32[1], t: i32[1]",
            """local s: u1  local n: i32
        while { %1: i32 = load x[%0]  %2: i32 = const 1  %3: u1 = cmp_gt %1, %2 } test %3 until s trips %4: i32 {
          %5: i32 = load x[%0]  %6: i32 = const 2  %7: i32 = floordiv %5, %6  store x[%0], %7
          %8: i32 = get n  %9: i32 = const 1  %10: i32 = add %8, %9  set n, %10
          %11: i32 = const 3  %12: u1 = cmp_ge %10, %11  set s, %12 }
        store t[%0], %4""",
        ),
        x=x,
        t=t,
        _order=order,
    )
    assert x.tolist() == [0, 1, 1, 1, 125, 1]
    assert t.tolist() == [0, 0, 1, 2, 3, 2]


def test_uniform_while(launch: Launch, each: Each, order: str) -> None:
    x = np.zeros(3, np.int32)
    launch(
        each(
            "x: i32[1]",
            f"""local n: i32  %1: i32 = const 5  %2: i32 = const 1
        while {{ %3: i32 = get n  %4: u1 = cmp_lt %3, %1 }} test %4 {{
          {BUMP.format(5, 6, 0)} %7: i32 = get n  %8: i32 = add %7, %2  set n, %8 }}""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 5, 10]


def test_break_in_a_condition_leaves_that_loop(launch: Launch, each: Each, order: str) -> None:
    x = np.zeros(5, np.int32)
    launch(
        each(
            "x: i32[1]",
            f"""%1: i32 = const 1  %2: i32 = const 2
        while {{ %3: i32 = load x[%0]  %4: u1 = cmp_ge %3, %2  if %4 {{ break 1 }}  %5: u1 = cmp_lt %3, %0 }} test %5
          trips %6: i32 {{ {BUMP.format(7, 8, 1)} }}
        %9: i32 = const 10  %10: i32 = mul %6, %9  {BUMP.format(11, 12, 10)}""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 11, 22, 22, 22]


def test_values_stay_right_when_lanes_come_back(launch: Launch, each: Each, order: str) -> None:
    """A value from before the loop is read after other lanes have left, in the loop and behind it."""
    x, y = np.zeros((2, 7), np.int32)
    launch(
        each(
            "x: i32[1], y: i32[1]",
            f"""%1: i32 = const 0  %2: i32 = mul %0, %0
        for %3: i32 in %1 .. %0 {{
          %4: i32 = const 3  %5: u1 = cmp_eq %3, %4  if %5 {{ break 1 }} {BUMP.format(6, 7, 2)} }}
        store y[%0], %2""",
        ),
        x=x,
        y=y,
        _order=order,
    )
    assert x.tolist() == [k * k * min(k, 3) for k in range(7)]
    assert y.tolist() == [k * k for k in range(7)]


def test_return_ends_the_iteration_only(launch: Launch, each: Each, order: str) -> None:
    x = np.zeros(4, np.int32)
    launch(
        each("x: i32[1]", """%1: i32 = const 2  %2: u1 = cmp_lt %0, %1  if %2 { return }  store x[%0], %1"""),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 0, 2, 2]


def test_return_in_a_serial_task_ends_the_kernel(launch: Launch) -> None:
    text = """kernel f(x: i32[1], early: u1) {
        serial { %0: i32 = const 0  %1: i32 = const 1  store x[%0], %1
          scope { %2: u1 = arg early  if %2 { return } }  %3: i32 = const 2  store x[%0], %3 }
        serial { %4: i32 = const 1  %5: i32 = const 5  store x[%4], %5 } }"""
    for early, expected in ((True, [1, 0]), (False, [2, 5])):
        x = np.zeros(2, np.int32)
        launch(text, x=x, early=early)
        assert x.tolist() == expected
