"""Intervals of reals: rules hold at random points, and an analysis of a task knows what each of its trips may see."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from stackgrad.compiler.analysis.interval_rules import EXACT, INTERVALS, cast_interval, rounded_interval
from stackgrad.compiler.analysis.intervals import Interval, Number, NumberInterval, type_interval
from stackgrad.compiler.analysis.real_ranges import RealRanges, real_ranges
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import Scalar, f16, f32, f64, i8, i32, i64, u1, u8, u32, u64
from stackgrad.reference.scalar import NUMPY, cast
from table_rows import each_row

TYPES = (f16, f32, f64, i8, u8, i32, u32, i64, u64, u1)


def draw(rng: random.Random, t: Scalar) -> float | int | bool:
    """A value of the type: small or large, sometimes special."""
    if t.is_bool:
        return rng.random() < 0.5
    if t.is_int:
        low, high = (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1)) if t.is_signed else (0, 2**t.bits)
        return max(low, min(high - 1, rng.choice([rng.randrange(low, high), rng.randrange(-5, 6), low, high - 1])))
    some = rng.choice([rng.uniform(-2, 2), rng.gauss(0, 1) * 10 ** rng.uniform(-8, 8), 0.0, -0.0, 1.0, -1.0])
    if rng.random() < 0.05:
        some = rng.choice([math.inf, -math.inf, math.nan])
    with np.errstate(all="ignore"):
        return t.dtype.type(some).item()


def inside(value: Number, interval: NumberInterval) -> bool:
    return math.isnan(value) or interval.low <= value <= interval.high


def around(rng: random.Random, values: list[Number], t: Scalar) -> NumberInterval:
    """An interval of a type that holds the values."""
    numbers = [v for v in values if not math.isnan(v)]
    if not numbers or rng.random() < 0.1:
        return type_interval(t)
    return Interval(min(numbers), max(numbers))


@pytest.mark.expensive
@each_row("name", list(OPS))
def test_rules_hold_what_operations_give(name: str) -> None:
    """Of random intervals, and the points between and at their ends."""
    rng = random.Random(name)
    op = OPS[name]
    fits = [(u1, t, t) for t in TYPES] if name == "select" else [(t,) * op.arity for t in TYPES]
    for types in fits:
        made = result_type(name, types)
        if made is None:
            continue
        for _ in range(60):
            points = [[draw(rng, t) for t in types] for _ in range(3)]
            intervals = [around(rng, [p[k] for p in points], t) for k, t in enumerate(types)]
            found = INTERVALS[name](types[-1], *intervals)
            if name not in EXACT or not made.is_real:
                found = rounded_interval(found, made)
            for point in points:
                if name in ("floordiv", "mod") and types[0].is_int and point[1] == 0:
                    continue
                value = NUMPY[name](*(np.asarray(v, t.dtype) for v, t in zip(point, types))).item()
                assert inside(value, found), (name, types, intervals, point, value, found)


@each_row("source", TYPES, ids=str)
@each_row("target", TYPES, ids=str)
def test_casts(source: Scalar, target: Scalar) -> None:
    rng = random.Random(f"{source}{target}")
    for _ in range(100):
        points = [draw(rng, source) for _ in range(2)]
        found = cast_interval(around(rng, points, source), source, target)
        for point in points:
            value = cast(np.asarray(point, source.dtype), source, target).item()
            assert inside(value, found), (points, found)


# ---- tasks --------------------------------------------------------------------------------------------------

HEAD = """kernel k(n: i32, x: f32[1], b: u8[1]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    local v: f32
    %3: f32 = load x[%2]
    %4: i32 = arg n
    %5: i32 = const 0
    %6: f32 = const 0.5
    %7: f32 = const 3.0
"""


def ranges(body: str) -> RealRanges:
    return real_ranges(parse_kernel(HEAD + body + "\n} }").tasks[0])


def reach(body: str, number: int, usual: bool = False) -> float:
    found = ranges(body)
    return found.reach(Value(number, f32), usual)


STEP = "%20: f32 = get v %21: f32 = sin %20 %22: f32 = mul %21, %6 %23: f32 = add %22, %6 set v, %23"


def test_what_is_loaded_may_be_anything() -> None:
    assert reach("set v, %3 %20: f32 = get v", 20) == math.inf
    assert reach("%20: f32 = get v", 20) == 0
    assert reach("%19: u8 = load b[%2] %20: f32 = cast %19", 20) == pytest.approx(255, rel=1e-5)


def test_trips_but_the_first_know_what_a_trip_gives() -> None:
    loop = f"set v, %3 for %10: i32 in %5 .. %4 {{ {STEP} }} %30: f32 = get v"
    assert reach(loop, 20) == math.inf
    assert reach(loop, 20, usual=True) == pytest.approx(1, rel=1e-5)
    assert reach(loop, 30) == math.inf  # of no trips


def test_where_all_trips_know_it() -> None:
    loop = f"for %10: i32 in %5 .. %4 {{ {STEP} }} %30: f32 = get v"
    assert reach(loop, 20) == reach(loop, 30) == pytest.approx(1, rel=1e-5)


GROWS = "%20: f32 = get v %21: f32 = sin %20 %22: f32 = add %20, %21 set v, %22"


@pytest.mark.parametrize("head", ["for %10: i32 in %5 .. %4 {", "while { %11: u1 = cmp_lt %3, %7 } test %11 {"])
def test_what_grows_is_unknown(head: str) -> None:
    assert reach(f"{head} {GROWS} }}", 20, usual=True) == math.inf
    wrapped = "%20: f32 = get v %21: f32 = add %20, %7 %22: f32 = mod %21, %7 set v, %22"
    assert reach(f"{head} {wrapped} }}", 20) == pytest.approx(3, rel=1e-5)


def test_branches_join_and_clamps_cut() -> None:
    chosen = "%9: u1 = cmp_lt %3, %6 if %9 { set v, %7 } else { set v, %6 } %20: f32 = get v"
    assert ranges(chosen).always[Value(20, f32)] == (0.5, 3.0)
    one_arm = "%9: u1 = cmp_lt %3, %6 if %9 { set v, %3 } %20: f32 = get v"
    assert reach(one_arm, 20) == math.inf
    clamped = "%20: f32 = min %3, %7 %21: f32 = max %20, %6"
    assert reach(clamped, 20) == math.inf and reach(clamped, 21) == pytest.approx(3, rel=1e-5)


LEAVING = {
    "break": "if %9 { set v, %3 break 1 }",
    "continue": "if %9 { set v, %3 continue 1 }",
    "break of the outer loop": "if %9 { set v, %3 break 2 }",
}


@pytest.mark.parametrize(
    "kind, within, behind, behind_all",
    [
        ("break", 1, math.inf, math.inf),
        ("continue", math.inf, math.inf, math.inf),
        ("break of the outer loop", 1, 1, math.inf),
    ],
)
def test_jumps_carry_the_state(kind: str, within: float, behind: float, behind_all: float) -> None:
    loop = f"""%9: u1 = cmp_lt %3, %6
    for %12: i32 in %5 .. %4 {{ set v, %6 for %10: i32 in %5 .. %4 {{ {LEAVING[kind]} {STEP} }} %30: f32 = get v }}
    %31: f32 = get v"""
    for number, wanted in ((20, within), (30, behind), (31, behind_all)):
        assert reach(loop, number) == pytest.approx(wanted, rel=1e-5)


def test_a_loop_that_always_leaves_has_one_trip() -> None:
    loop = f"set v, %3 for %10: i32 in %5 .. %4 {{ {STEP} return }} %30: f32 = get v"
    assert Value(20, f32) not in ranges(loop).usual


def test_until_is_an_end_of_a_trip() -> None:
    loop = f"local s: u1 for %10: i32 in %5 .. %4 until s {{ {STEP} set v, %3 }} %30: f32 = get v"
    assert reach(loop, 20, usual=True) == math.inf and reach(loop, 30) == math.inf


def test_arrays_have_one_interval() -> None:
    body = "local_array a: f32[4] set_element a[%5], %7 %20: f32 = get_element a[%2]"
    assert ranges(body).always[Value(20, f32)] == (0.0, 3.0)
    assert reach(body.replace("%7", "%3"), 20) == math.inf


SAVES = "adstack_push s, %20"
BACK = "for %40: i32 in %5 .. %4 descending { %41: f32 = adstack_load_top s adstack_pop s %42: f32 = cos %41 }"


def test_stacks_hold_what_is_pushed_anywhere() -> None:
    known = f"adstack_alloca s: f32 for %10: i32 in %5 .. %4 {{ {STEP} {SAVES} }} {BACK}"
    assert reach(known, 41) == pytest.approx(1, rel=1e-5)
    odd = f"adstack_alloca s: f32 set v, %3 for %10: i32 in %5 .. %4 {{ {STEP} {SAVES} }} {BACK}"
    found = ranges(odd)
    (assumed,) = found.assumed.values()
    assert found.reach(Value(41, f32)) == math.inf
    assert found.reach(Value(41, f32), True) == assumed["s"] == pytest.approx(1, rel=0.01)
    always = odd.replace(SAVES, "adstack_push s, %3")
    assert not any(ranges(always).assumed.values()) and reach(always, 41, True) == math.inf


def test_each_loop_assumes_what_was_pushed_before() -> None:
    """What a later loop pushes does not weaken what an earlier one was found to assume."""
    far = "for %50: i32 in %5 .. %4 { %51: f32 = get v adstack_push s, %51 set v, %7 }"
    back = BACK.replace("%4", "%6").replace("%6 d", "%4 d")
    head = f"adstack_alloca s: f32 set v, %3 for %10: i32 in %5 .. %4 {{ {STEP} {SAVES} }}"
    found = ranges(f"{head} {BACK} set v, %3 {far} {back}")
    first, second = (found.assumed[Value(number, i32)]["s"] for number in (40, 60))
    assert first == pytest.approx(1, rel=0.01) and second == 3.0
    assert found.reach(Value(41, f32), True) == first


def test_pushes_that_stand_behind_the_reads_count() -> None:
    for number, wanted in ((7, 3.0), (3, math.inf)):
        body = f"adstack_alloca s: f32 for %12: i32 in %5 .. %4 {{ {BACK} adstack_push s, %{number} }}"
        assert reach(body, 41) == wanted


def test_integers_that_wrap_are_unknown() -> None:
    body = "%15: i32 = const {} %16: i32 = const 2147483647 %17: i32 = add %15, %16 %20: f32 = cast %17"
    assert ranges(body.format(0)).always[Value(17, i32)] == (2.0**31 - 1, 2.0**31 - 1)
    assert ranges(body.format(1)).always[Value(17, i32)] == (-(2.0**31), 2.0**31 - 1)
    found = ranges("%15: i64 = const 5 %16: i64 = add %15, %15 %20: f32 = cast %16")
    assert found.reach(Value(20, f32)) == pytest.approx(10, rel=1e-5)
    assert rounded_interval(Interval(0, 2**60), i64) == (0, 2**60)
    assert rounded_interval(Interval(0, 2**63), i64) == (-(2**63), 2**63 - 1)


def test_negative_numbers_have_no_place_in_unsigned_types() -> None:
    """A negative number that becomes a u64 is a large number, so it must not stay small in the interval."""
    body = "%15: i8 = const -3 %16: u64 = cast %15 %20: f32 = cast %16"
    assert reach(body, 20) >= 2.0**64 - 2.0**41
