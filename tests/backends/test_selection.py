"""Test blocks of selected iterations: gated tasks and loops of unequal length give the results of branching code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recorded_support import near
from stackgrad.backends.base import Draws, Sizes
from stackgrad.backends.codegen.gates import ScanPlan, selection
from stackgrad.backends.launching.launcher import NO_DRAWS
from stackgrad.backends.llvm.masked.buckets import COUNT, LONGEST
from stackgrad.backends.llvm.masked.compaction import CHUNK
from stackgrad.backends.llvm.masked.function import lower_exits_of
from stackgrad.backends.llvm.profitability import runs_along_rows
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import run_bounded

SIZE = 2 * CHUNK + 777
BOX = "bounds { %0: i32 = const 0 %1: i32 = shape on, 0 } parallel %2: i32 in %0 .. %1"
STEP = "%20: f32 = get v %21: f32 = mul %20, %9 %22: f32 = add %21, %8 set v, %22"
NUMBERS = "%8: f32 = const 0.25 %9: f32 = const 0.75"

GATED = f"""kernel k(on: i32[1], x: f32[1], y: f32[1]) {{ {BOX} {{
    %3: i32 = load on[%2] {NUMBERS} %10: i32 = const 0 %11: i32 = const 5 %5: u1 = cmp_gt %3, %10
    if %5 {{ %6: f32 = load x[%2] local v: f32 set v, %6 for %12: i32 in %10 .. %11 {{ {STEP} }}
        %7: f32 = get v store y[%2], %7 }} }} }}"""

LEFT = GATED.replace("cmp_gt", "cmp_le").replace("if %5 {", "if %5 { return }").replace(", %7 }", ", %7")

TWOFOLD = GATED.replace(
    "if %5 {",
    """local c: u1 set c, %5
    if %5 { %40: f32 = load x[%2] %41: u1 = cmp_gt %40, %8 set c, %41 } %42: u1 = get c if %42 {""",
)

UNEVEN = f"""kernel k(on: i32[1], x: f32[1], y: f32[1]) {{ {BOX} {{
    %3: i32 = load on[%2] {NUMBERS} %10: i32 = const 0 %6: f32 = load x[%2] local v: f32 set v, %6
    for %12: i32 in %10 .. %3 {{ {STEP} %23: f32 = sin %22 set v, %23 }} %7: f32 = get v store y[%2], %7 }} }}"""

BOTH = f"""kernel k(on: i32[1], n: i32[1], x: f32[1], y: f32[1], s: i32[1]) {{ {BOX} {{
    %3: i32 = load on[%2] {NUMBERS} %10: i32 = const 0 %13: i32 = const 1 %5: u1 = cmp_ge %3, %10
    if %5 {{ %14: i32 = load n[%3] %6: f32 = load x[%2] local v: f32 set v, %6
        for %12: i32 in %10 .. %14 {{ {STEP} %23: f32 = cos %22 set v, %23 %24: i32 = atomic add s[%10], %13 }}
        %7: f32 = get v %25: f32 = atomic add y[%2], %7 }} }} }}"""

ADJOINT = f"""kernel k(on: i32[1], n: i32[1], x: f32[1], y: f32[1]) {{ {BOX} {{
    adstack_alloca t: f32
    %3: i32 = load on[%2] {NUMBERS} %10: i32 = const 0 %5: u1 = cmp_ge %3, %10
    if %5 {{ %14: i32 = load n[%3] %6: f32 = load x[%2] local v: f32 set v, %6
        for %12: i32 in %10 .. %14 {{ {STEP} adstack_push t, %20 }} }}
    if %5 {{ local a: f32 set a, %9 %15: i32 = load n[%3]
        for %16: i32 in %10 .. %15 descending {{
            %30: f32 = get a %31: f32 = adstack_load_top t adstack_pop t %32: f32 = mul %30, %31
            %33: f32 = sub %32, %8 set a, %33 }}
        %17: f32 = get a store y[%2], %17 }} }} }}"""

DRAWN = f"""kernel k(on: i32[1], y: f32[1]) {{ {BOX} {{
    %3: f32 = random %4: f32 = random {NUMBERS} %10: i32 = const 0 %11: i32 = const 4 %5: u1 = cmp_lt %4, %8
    if %5 {{ local v: f32 set v, %3 for %12: i32 in %10 .. %11 {{
        %20: f32 = get v %21: f32 = random %22: f32 = add %20, %21 set v, %22 }}
        %7: f32 = get v store y[%2], %7 }} }} }}"""

PLANE = f"""kernel k(on: i32[2], x: f32[2], y: f32[2]) {{ bounds {{
    %0: i32 = const 0 %1: i32 = shape on, 0 %40: i32 = {{last}} }} parallel %2: i32, %41: i32 in %0 .. %1, %0 .. %40 {{
    %3: i32 = load on[%2, %41] {NUMBERS} %10: i32 = const 0 %6: f32 = load x[%2, %41] local v: f32 set v, %6
    for %12: i32 in %10 .. %3 {{ {STEP} %23: f32 = sin %22 set v, %23 }}
    %7: f32 = get v store y[%2, %41], %7 }} }}""".replace("{{last}}", "{last}")


def chosen(text: str) -> ScanPlan | None:
    """Return the scan plan of the first task, or None if it has none."""
    kernel = parse_kernel(text)
    task = lower_exits_of(kernel, 0)
    return selection(task, runs_along_rows(task))


def both(
    bench: Any, text: str, make: Callable[[], dict[str, np.ndarray]], draws: Draws = NO_DRAWS, **sizes: Any
) -> None:
    """Assert that branching code and masked code of 16 and 64 lanes agree with the reference; sines within ulps."""
    known = run_bounded(parse_kernel(text), make(), {}, Sizes(**sizes), draws)
    for lanes in (0, 16, 64):
        for name, array in bench.run(text, make(), lanes=lanes, draws=draws, **sizes).items():
            near(known, name, array)


def gates(share: float, size: int = SIZE) -> np.ndarray:
    return (np.random.default_rng(1).random(size) < share).astype(np.int32)


def line() -> dict[str, np.ndarray]:
    return {"x": np.linspace(0, 1, SIZE).astype(np.float32), "y": np.full(SIZE, -1, np.float32)}


@pytest.mark.rotating
@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("text", [GATED, LEFT, TWOFOLD], ids=["if", "return", "and"])
def test_gated(bench: Any, text: str, share: float) -> None:
    """Closed iterations leave their elements alone, whether all, some or none of a block or a chunk are closed."""
    found = chosen(text)
    assert found is not None and found.gate is not None and found.gate.opens == (text is not LEFT)
    both(bench, text, lambda: {"on": gates(share), **line()})


@pytest.mark.rotating
@pytest.mark.parametrize("low, high", [(0, 1), (3, 4), (0, 40), (-5, 9)])
def test_uneven(bench: Any, low: int, high: int) -> None:
    """Sorted by length or left as they are; also where no trips are made, or a negative number of them."""
    found = chosen(UNEVEN)
    assert found is not None and found.gate is None and len(found.loops) == 1
    trips = np.random.default_rng(2).integers(low, high, SIZE).astype(np.int32)
    both(bench, UNEVEN, lambda: {"on": trips.copy(), **line()})


def test_one_long_loop_among_short_ones(bench: Any) -> None:
    trips = np.full(SIZE, 2, np.int32)
    trips[::997] = 700
    both(bench, UNEVEN, lambda: {"on": trips.copy(), **line()})


def guarded_places() -> dict[str, np.ndarray]:
    """Return arrays; `on` has indices inside of n if the gate is open, and far outside of n if it is closed."""
    rng = np.random.default_rng(3)
    on = np.where(rng.random(SIZE) < 0.2, rng.integers(0, 9, SIZE), -(1 << 30)).astype(np.int32)
    n = np.array([0, 1, 2, 3, 5, 8, 13, 21, 60], np.int32)
    return {"on": on, "n": n, **line()}


def test_bounds_are_read_behind_the_gate(bench: Any) -> None:
    """The scan reads nothing that the gate protects; updates of own and of shared elements come out right."""
    found = chosen(BOTH)
    assert found is not None and found.gate is not None and found.loops and found.counting
    both(bench, BOTH, lambda: {**guarded_places(), "s": np.zeros(1, np.int32)})


def test_adstacks(bench: Any) -> None:
    """Rows are per lane: pushes and pops of an iteration meet whatever its place in the list."""
    found = chosen(ADJOINT)
    assert found is not None and found.gate is not None and found.loops
    both(bench, ADJOINT, guarded_places, capacities={"t": 60}, rows={(0, "real"): 1})


def test_draws_keep_their_iteration(bench: Any) -> None:
    """A draw in front of the gate that does not decide it counts as well."""
    found = chosen(DRAWN)
    assert found is not None and len(found.deciding) == 4
    draws = Draws(seed=5, launch=6)
    both(bench, DRAWN, lambda: {"on": gates(1.0), "y": np.zeros(SIZE, np.float32)}, draws=draws)


@pytest.mark.rotating
@pytest.mark.parametrize("shape, last", [((41, 333), "shape on, 1"), ((3000, 3), "const 3")])
def test_planes(bench: Any, shape: tuple[int, int], last: str) -> None:
    """Listed iterations find their indices on two axes, of long rows and of short ones."""
    text = PLANE.replace("{last}", last)
    assert chosen(text) is not None
    trips = np.random.default_rng(4).integers(0, 50, shape).astype(np.int32)
    both(
        bench,
        text,
        lambda: {
            "on": trips.copy(),
            "y": np.zeros(shape, np.float32),
            "x": np.linspace(0, 1, trips.size, dtype=np.float32).reshape(shape),
        },
    )


@pytest.mark.parametrize(
    "change",
    [
        ("cmp_gt %3, %10", "cmp_gt %2, %10"),  # neighbors do the same
        ("for %12: i32 in %10 .. %11 {", "if %5 {"),  # not worth a scan
        ("if %5 { %6", "store y[%2], %9 if %5 { %6"),  # an effect in front of the gate
        ("store y[%2], %7 }", "store y[%2], %7 } else { store y[%2], %9 }"),
    ],
)
def test_what_is_not_gated(change: tuple[str, str]) -> None:
    assert change[0] in GATED
    assert chosen(GATED.replace(*change)) is None


@pytest.mark.parametrize(
    "change",
    [
        ("load on[%2]", "const 7"),  # all loops are alike
        ("store y[%2], %7", "store y[%2], %7 store on[%2], %10"),  # what would be read ahead is written
        ("for %12: i32 in %10 .. %3", "for %12: i32 in %10 .. %2"),  # neighbors are alike
    ],
)
def test_what_is_not_uneven(change: tuple[str, str]) -> None:
    assert change[0] in UNEVEN
    assert chosen(UNEVEN.replace(*change)) is None


@pytest.mark.rotating
@pytest.mark.parametrize("size", [1, 15, 16, 63, 64, 65, 4 * 64 - 1, 4 * 64, CHUNK, CHUNK + 1])
def test_sizes(bench: Any, size: int) -> None:
    """Few iterations, whole blocks, whole chunks, and one more."""
    trips = np.random.default_rng(6).integers(0, 30, size).astype(np.int32)
    for text in (GATED, UNEVEN):
        both(bench, text, lambda: {"on": trips.copy(), **{name: x[:size] for name, x in line().items()}})


def test_keys_are_small() -> None:
    """The longest loop that a scan tells from others has a key within the table, and keys grow with the trips."""
    trips = np.unique(np.concatenate([np.arange(1, 300), 2 ** np.arange(9, 21), [LONGEST]])).astype(np.float32)
    keys = (trips.view(np.int32) >> 20) - 1015
    assert keys[0] == 1 and keys[-1] < COUNT and np.all(np.diff(keys) >= 0) and np.all(np.diff(keys[:15]) > 0)


CLEARED = """kernel k(x: f32[1], on: i32[1], y: f32[1], s: f32[1]) {
    bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %9: i32 = const 0 local a: f32 %10: f32 = const 7.0 set a, %10 %3: i32 = load on[%2] %4: u1 = cmp_gt %3, %9
        if %4 { %5: f32 = load x[%2] %6: f32 = const 0.0 store x[%2], %6 USE }
        %8: f32 = get a store y[%2], %8 } }"""


@pytest.mark.parametrize("use", ["set a, %5", "%7: f32 = atomic add s[%9], %5"])
@pytest.mark.parametrize("lanes", [0, 16, 64])
def test_a_load_stays_in_front_of_a_store(bench: Any, use: str, lanes: int) -> None:
    """What was read before an element is cleared is what counts, also where a mask selects it afterwards."""
    x, on = np.arange(1, 101, dtype=np.float32), (np.arange(100) % 3 == 0).astype(np.int32)
    arrays = {"x": x.copy(), "on": on, "y": np.zeros_like(x), "s": np.zeros(1, np.float32)}
    bench.run(CLEARED.replace("USE", use), arrays, lanes=lanes)
    np.testing.assert_array_equal(arrays["x"], np.where(on, 0, x))
    np.testing.assert_array_equal(arrays["y"], np.where(on, x, 7) if "set" in use else 7)
    assert arrays["s"] == (0 if "set" in use else x[on > 0].sum())
