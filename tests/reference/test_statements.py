"""Each statement that computes or moves values, in uniform and in divergent lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.reference.machine import RUN

Launch = Callable[..., Any]
Each = Callable[[str, str], str]
ORDERS = ("vector", "forward", "reverse", "shuffled:3")
ODD = "%1: i32 = const 1  %2: i32 = bit_and %0, %1  %3: u1 = cast %2"


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_every_statement_has_a_handler() -> None:
    assert RUN.missing() == []
    assert not RUN.holes
    assert set(RUN) == set(STATEMENTS.values())


def test_constants_arguments_shapes(launch: Launch) -> None:
    x = np.zeros((2, 5), np.float64)
    launch(
        """kernel f(x: f64[2], n: i8, b: u1) { serial {
        %0: i32 = const 0  %1: i32 = const 1  %2: i64 = shape x, 1  %3: f64 = cast %2  store x[%0, %0], %3
        %4: i8 = arg n  %5: f64 = cast %4  store x[%0, %1], %5
        %6: u1 = arg b  %7: f64 = cast %6  store x[%1, %0], %7
        %8: f32 = const 0.1  %9: f64 = cast %8  store x[%1, %1], %9 } }""",
        x=x,
        n=300,
        b=True,
    )
    assert x[:, :2].tolist() == [[5.0, 44.0], [1.0, float(np.float32(0.1))]]


def test_conversions(launch: Launch, each: Each, order: str) -> None:
    x, y = np.array([1.0, -2.5, np.nan, 3e9], np.float32), np.zeros(4, np.int32)
    launch(
        each(
            "x: f32[1], y: i32[1]",
            """%1: f32 = load x[%0]  %2: i32 = cast %1  store y[%0], %2
        %3: i32 = bit_cast %1  %4: f32 = bit_cast %3  store x[%0], %4""",
        ),
        x=x,
        y=y,
        _order=order,
    )
    assert y.tolist() == [1, -2, 0, 2**31 - 1]
    assert x[:2].tolist() == [1.0, -2.5]


def test_box_of_three_axes(launch: Launch, order: str) -> None:
    """begin and end differ by axis and are computed; indices are in row-major order."""
    x = np.zeros((3, 4, 5), np.int64)
    launch(
        """kernel f(x: i64[3]) {
        bounds { %0: i32 = const 1  %1: i32 = shape x, 0  %2: i32 = shape x, 1  %3: i32 = shape x, 2
                 %4: i32 = sub %3, %0 }
        parallel %5: i32, %6: i32, %7: i64 in %0 .. %1, %0 .. %2, %0 .. %4 {
          %8: i32 = const 100  %9: i32 = mul %5, %8  %10: i32 = const 10  %11: i32 = mul %6, %10
          %12: i32 = add %9, %11  %13: i64 = cast %12  %14: i64 = add %13, %7  store x[%5, %6, %7], %14 } }""",
        x=x,
        _order=order,
    )
    i, j, k = np.indices(x.shape)
    inside = (i >= 1) & (j >= 1) & (k >= 1) & (k < 4)
    assert np.array_equal(x, np.where(inside, 100 * i + 10 * j + k, 0))


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (5, 2), (-3, -3)])
def test_empty_box(launch: Launch, begin: int, end: int) -> None:
    x = np.zeros(4, np.int32)
    launch(
        """kernel f(x: i32[1], b: i32, e: i32) { bounds { %0: i32 = arg b  %1: i32 = arg e }
        parallel %2: i32 in %0 .. %1 { store x[%2], %2 } }""",
        x=x,
        b=begin,
        e=end,
    )
    assert not x.any()


def test_box_empty_along_two_axes(launch: Launch) -> None:
    """The product of two negative extents is no number of iterations."""
    x = np.zeros(4, np.int32)
    launch(
        """kernel f(x: i32[1]) { bounds { %0: i32 = const 3  %1: i32 = const 1 }
        parallel %2: i32, %3: i32 in %0 .. %1, %0 .. %1 { store x[%2], %2 } }""",
        x=x,
    )
    assert not x.any()


def test_negative_begin(launch: Launch, order: str) -> None:
    x = np.zeros(5, np.int32)
    launch(
        """kernel f(x: i32[1]) { bounds { %0: i32 = const -2  %1: i32 = const 3 }
        parallel %2: i32 in %0 .. %1 { %3: i32 = const 2  %4: i32 = add %2, %3  store x[%4], %2 } }""",
        x=x,
        _order=order,
    )
    assert x.tolist() == [-2, -1, 0, 1, 2]


def test_stores_to_one_element_last_lane_wins(launch: Launch, each: Each) -> None:
    x, y = np.zeros(10, np.int32), np.zeros(2, np.int32)
    launch(
        each(
            "x: i32[1], y: i32[1]",
            """%1: i32 = const 1  store y[%1], %0
        %2: i32 = sub %0, %0  store y[%2], %0""",
        ),
        x=x,
        y=y,
    )
    assert y.tolist() == [9, 9]


def test_local_is_zero_each_time(launch: Launch, each: Each, order: str) -> None:
    """Odd lanes set it in round 0; it is zero again in round 1."""
    x = np.full(6, -1, np.int32)
    launch(
        each(
            "x: i32[1]",
            f"""{ODD} %4: i32 = const 0 %5: i32 = const 2
        for %6: i32 in %4 .. %5 {{ local v: i32  %7: i32 = get v  store x[%0], %7
          if %3 {{ %8: i32 = const 9  set v, %8 }} }}""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0] * 6


def test_local_keeps_lanes_apart(launch: Launch, each: Each, order: str) -> None:
    x, y = np.zeros((2, 6), np.int32)
    launch(
        each(
            "x: i32[1], y: i32[1]",
            f"""{ODD} local v: i32  set v, %0  %4: i32 = get v
        if %3 {{ %5: i32 = get v  %6: i32 = mul %5, %5  set v, %6 }} else {{ local w: i32  set w, %0  %7: i32 = get w
          %8: i32 = neg %7  set v, %8 }}
        %9: i32 = get v  store x[%0], %9  store y[%0], %4""",
        ),
        x=x,
        y=y,
        _order=order,
    )
    assert x.tolist() == [0, 1, -2, 9, -4, 25]
    assert y.tolist() == [0, 1, 2, 3, 4, 5], "a value read before is not changed by a later set"


def test_a_value_read_between_divergent_sets_stays(launch: Launch, each: Each, order: str) -> None:
    x, y = np.zeros((2, 4), np.int32)
    launch(
        each(
            "x: i32[1], y: i32[1]",
            f"""{ODD} local v: i32  if %3 {{ set v, %0 }}  %4: i32 = get v
        if %3 {{ %5: i32 = const 7  set v, %5 }}  %6: i32 = get v  store x[%0], %4  store y[%0], %6""",
        ),
        x=x,
        y=y,
        _order=order,
    )
    assert x.tolist() == [0, 1, 0, 3]
    assert y.tolist() == [0, 7, 0, 7]


def test_local_declared_again_in_some_lanes(launch: Launch, each: Each, order: str) -> None:
    """In each round a smaller set of lanes declares, sets and reads the variable."""
    x = np.zeros(8, np.int32)
    launch(
        each(
            "x: i32[1]",
            """%1: i32 = const 0  for %2: i32 in %1 .. %0 {
        local v: i32  %3: i32 = get v  %4: i32 = add %3, %2  set v, %4  %5: i32 = get v
        %6: i32 = load x[%0]  %7: i32 = add %6, %5  store x[%0], %7 }""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [k * (k - 1) // 2 for k in range(8)]


def test_local_arrays(launch: Launch, each: Each, order: str) -> None:
    """Dynamic and constant indices, in divergent lanes, zero again each time."""
    x, y = np.zeros((2, 9), np.int64)
    launch(
        each(
            "x: i64[1], y: i64[1]",
            f"""{ODD} %4: i32 = const 0 %5: i32 = const 2
        for %6: i32 in %4 .. %5 {{
          local_array a: i64[3]  %7: i32 = const 3  %8: i32 = mod %0, %7  %9: i64 = cast %0
          %10: i64 = get_element a[%8]  %11: i64 = add %10, %9  set_element a[%8], %11
          if %3 {{ %12: i64 = const 50  set_element a[%4], %12 }}
          %13: i64 = get_element a[%4]  store x[%0], %13
          %14: i64 = get_element a[%8]  store y[%0], %14 }}""",
        ),
        x=x,
        y=y,
        _order=order,
    )
    assert x.tolist() == [50 if k % 2 else k if k % 3 == 0 else 0 for k in range(9)]
    assert y.tolist() == [50 if k % 2 and k % 3 == 0 else k for k in range(9)]


def test_an_element_read_is_a_value(launch: Launch, each: Each, order: str) -> None:
    x = np.zeros(3, np.int32)
    launch(
        each(
            "x: i32[1]",
            """local_array a: i32[2]  %1: i32 = const 1  set_element a[%1], %0
        %2: i32 = get_element a[%1]  %3: i32 = const 7  set_element a[%1], %3  store x[%0], %2""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 1, 2]


def test_temporaries_carry_between_tasks_and_start_at_zero(launch: Launch, order: str) -> None:
    text = """kernel f(x: f32[1]) { temp $sum: f32
        bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
          %3: f32 = load x[%2]  %4: f32 = atomic add $sum[], %3 }
        bounds { %5: i32 = const 0  %6: i32 = shape x, 0 } parallel %7: i32 in %5 .. %6 {
          %8: f32 = load $sum[]  store x[%7], %8 } }"""
    x = np.arange(5, dtype=np.float32)
    launch(text, x=x, _order=order)
    assert x.tolist() == [10.0] * 5
    launch(text, x=x, _order=order)
    assert x.tolist() == [50.0] * 5


def test_adjoint_arrays_and_rank_zero(launch: Launch) -> None:
    arrays = {"x": np.array(3.0, np.float32), "x.grad": np.array(1.0, np.float32)}
    launch(
        """kernel f(x: f32[0] grad) { serial { %0: f32 = load x[]  %1: f32 = load x.grad[]  %2: f32 = mul %0, %1
        store x.grad[], %2  %3: f32 = atomic add x.grad[], %0 } }""",
        **arrays,
    )
    assert arrays["x.grad"] == 6.0
    assert arrays["x"] == 3.0


def test_a_division_runs_only_where_it_is_reached(launch: Launch, each: Each, order: str) -> None:
    x = np.array([0, 1, 0, 3], np.int32)
    launch(
        each(
            "x: i32[1]",
            """%1: i32 = load x[%0]  %2: u1 = cast %1  if %2 {
        %3: i32 = const 12  %4: i32 = floordiv %3, %1  store x[%0], %4 }""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 12, 0, 4]


def test_lanes_elsewhere_touch_no_memory(launch: Launch, each: Each, order: str) -> None:
    """Without the guard index and store would be out of range."""
    x = np.zeros(4, np.int32)
    launch(
        each(
            "x: i32[1]",
            """%1: i32 = const 2  %2: i32 = add %0, %1  %3: i32 = shape x, 0  %4: u1 = cmp_lt %2, %3
        if %4 { %5: i32 = load x[%2]  store x[%2], %0 }""",
        ),
        x=x,
        _order=order,
    )
    assert x.tolist() == [0, 0, 0, 1]


def test_no_warnings(launch: Launch, each: Each, order: str, recwarn: pytest.WarningsRecorder) -> None:
    x = np.array([0.0, -1.0, np.inf, 1e38], np.float32)
    launch(
        each(
            "x: f32[1]",
            """%1: f32 = load x[%0]  %2: f32 = log %1  %3: f32 = div %2, %1  %4: f32 = mul %1, %1
        %5: f32 = add %3, %4  %6: f16 = cast %5  %7: i8 = cast %6  %8: f32 = cast %7  store x[%0], %8""",
        ),
        x=x,
        _order=order,
    )
    assert not recwarn.list


def test_print(launch: Launch, each: Each, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a lane that executes it, in lane order."""
    x = np.array([0.5, 0.1, 2.0], np.float32)
    launch(
        each(
            "x: f32[1]",
            f"""{ODD} %4: f32 = load x[%0]  if %3 {{ print "odd" }}
        print "x[{{}}] = {{}}!" %0, %4  print "{{}}" %3""",
        ),
        x=x,
    )
    assert capsys.readouterr().out.splitlines() == [
        "odd",
        "x[0] = 0.5!",
        "x[1] = 0.1!",
        "x[2] = 2.0!",
        "False",
        "True",
        "False",
    ]


def test_print_of_uniform_values(launch: Launch, each: Each, capsys: pytest.CaptureFixture[str]) -> None:
    launch(each("x: f32[1]", '%1: i32 = const 4  print "{} {}" %1, %1'), x=np.zeros(2, np.float32))
    assert capsys.readouterr().out == "4 4\n4 4\n"
