"""Test control flow: which statements run, in which order, how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws

Count = Callable[..., list[int]]

HEAD = "%0: i32 = const 0 %1: i32 = const 1 %2: i32 = const 2 %3: i32 = const 3 %4: i32 = const 4 %9: i32 = const 9"


def hit(number: int, at: int) -> str:
    """Return IR text that counts a visit in element %at of the array log."""
    return f"%{number}: i32 = atomic add log[%{at}], %1"


def loop_indices(bench: Any, begin: int, end: int, step: int, descending: bool, t: str = "i32") -> list[int]:
    """Return the indices of a loop in order, followed by its trip count."""
    down = " descending" if descending else ""
    text = f"""kernel k(begin: {t}, end: {t}, out: {t}[1], n: i32[1]) {{ serial {{
        %0: i32 = const 0
        %1: i32 = const 1
        %2: {t} = arg begin
        %3: {t} = arg end
        for %4: {t} in %2 .. %3 step {step}{down} trips %5: i32 {{
          %6: i32 = atomic add n[%0], %1
          store out[%6], %4
        }}
        store n[%1], %5
    }} }}"""
    out, n = np.zeros(64, t.replace("i", "int").replace("u", "uint").replace("uuint", "uint")), np.zeros(2, np.int32)
    bench.run(text, {"out": out, "n": n}, {"begin": begin, "end": end})
    assert n[0] == n[1]
    return [int(x) for x in out[: n[0]]]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -5])
@pytest.mark.parametrize(("begin", "end"), [(0, 7), (7, 0), (3, 3), (-4, 5), (5, -6), (0, 1)])
def test_range(shared: Any, begin: int, end: int, step: int, descending: bool) -> None:
    want = list(range(begin, end, step))
    assert loop_indices(shared, begin, end, step, descending) == (want[::-1] if descending else want)


@pytest.mark.parametrize(
    ("t", "begin", "end", "step"),
    [
        ("i32", 2**31 - 5, 2**31 - 1, 3),
        ("i32", -(2**31), -(2**31) + 3, 1),
        ("i64", 2**63 - 4, 2**63 - 1, 2),
        ("i64", -(2**63), 2**63 - 1, 2**62),
        ("i64", 2**63 - 1, -(2**63), -(2**62)),
        ("i8", -128, 127, 51),
        ("u32", 2**32 - 5, 2**32 - 1, 2),
        ("u32", 5, 0, -2),
        ("u64", 2**64 - 3, 2**64 - 1, 1),
        ("u8", 250, 255, 1),
    ],
)
def test_range_at_the_ends_of_types(shared: Any, t: str, begin: int, end: int, step: int) -> None:
    """The distance is computed without overflow; no index wraps into the range."""
    assert loop_indices(shared, begin, end, step, False, t) == list(range(begin, end, step))


@pytest.mark.parametrize(("depth", "want"), [(1, [3, 3, 0, 3, 1]), (2, [1, 1, 0, 0, 1]), (3, [1, 1, 0, 0, 0])])
def test_break_depth(shared: Any, count: Count, depth: int, want: list[int]) -> None:
    """for in for in scope: log 0 and 1 around the jump in the inner body, 2 after it, 3 after the inner loop."""
    body = f"""{HEAD}
    scope {{
      for %10: i32 in %0 .. %3 {{
        for %11: i32 in %0 .. %4 {{
          {hit(20, 0)}
          {hit(21, 1)}
          %30: u1 = cmp_ge %10, %0
          if %30 {{ break {depth} }}
          {hit(22, 2)}
        }}
        {hit(23, 3)}
      }}
      {hit(24, 4)}
    }}"""
    assert count(shared, body)[:5] == want


@pytest.mark.parametrize(("depth", "want"), [(1, [12, 0, 3]), (2, [3, 0, 0])])
def test_continue_depth(shared: Any, count: Count, depth: int, want: list[int]) -> None:
    body = f"""{HEAD}
    for %10: i32 in %0 .. %3 {{
      for %11: i32 in %0 .. %4 {{
        {hit(20, 0)}
        continue {depth}
        {hit(21, 1)}
      }}
      {hit(22, 2)}
    }}"""
    assert count(shared, body)[:3] == want


def test_while_counts_runs_of_the_body(shared: Any, count: Count) -> None:
    """4 full runs, then a run that `until` ends, so the condition runs 5 times; trips counts 5."""
    body = f"""{HEAD}
    local n: i32
    local done: u1
    while {{ {hit(20, 0)} %10: i32 = get n %11: u1 = cmp_lt %10, %9 }} test %11 until done trips %12: i32 {{
      {hit(21, 1)}
      %13: i32 = get n
      %14: i32 = add %13, %1
      set n, %14
      %15: u1 = cmp_ge %13, %4
      set done, %15
    }}
    store log[%2], %12"""
    assert count(shared, body)[:3] == [5, 5, 5]


def test_for_until_and_zero_trips(shared: Any, count: Count) -> None:
    body = f"""{HEAD}
    local stop: u1
    for %10: i32 in %0 .. %9 until stop trips %11: i32 {{
      %12: u1 = cmp_eq %10, %2
      set stop, %12
      {hit(20, 0)}
    }}
    store log[%1], %11
    for %13: i32 in %9 .. %0 trips %14: i32 {{ {hit(21, 2)} }}
    store log[%3], %14"""
    assert count(shared, body)[:4] == [3, 3, 0, 0]


def test_locals_are_zero_each_time(shared: Any, count: Count) -> None:
    """A local and a local array declared in a loop start at zero in every iteration."""
    body = f"""{HEAD}
    for %10: i32 in %0 .. %4 {{
      local v: i32
      local_array a: i32[4]
      %11: i32 = get v
      %12: i32 = get_element a[%2]
      %13: i32 = add %11, %12
      %14: i32 = atomic add log[%0], %13
      set v, %9
      set_element a[%2], %9
      %15: i32 = get v
      %16: i32 = get_element a[%2]
      %17: i32 = add %15, %16
      %18: i32 = atomic add log[%1], %17
    }}"""
    assert count(shared, body)[:2] == [0, 4 * 18]


def test_return_ends_an_iteration_or_the_kernel(shared: Any) -> None:
    """In a parallel task the others go on; in a serial one later tasks do not run."""
    text = """kernel k(log: i32[1], stop: u1) {
      bounds { %0: i32 = const 0 %1: i32 = const 10 } parallel %2: i32 in %0 .. %1 {
        %10: i32 = const 0
        %11: i32 = const 1
        %12: i32 = const 4
        %13: u1 = cmp_lt %2, %12
        for %14: i32 in %10 .. %12 { if %13 { return } }
        %15: i32 = atomic add log[%10], %11
      }
      serial {
        %20: u1 = arg stop
        %21: i32 = const 0
        %22: i32 = const 5
        for %23: i32 in %21 .. %22 { if %20 { return } }
      }
      serial { %30: i32 = const 1 %31: i32 = atomic add log[%30], %30 }
    }"""
    for stop, later in ((False, 1), (True, 0)):
        log = np.zeros(4, np.int32)
        shared.run(text, {"log": log}, {"stop": stop})
        assert log.tolist() == [6, later, 0, 0]


def test_boxes(shared: Any) -> None:
    """Every point once, in a box with offsets; nothing where an extent is not positive."""
    text = """kernel k(a: i32, b: i32, c: i32, x: i32[3]) {
      bounds { %0: i32 = const 1 %1: i32 = arg a %2: i32 = arg b %3: i32 = arg c }
      parallel %4: i32, %5: i32, %6: i32 in %0 .. %1, %0 .. %2, %0 .. %3 {
        %7: i32 = const 1
        %8: i32 = atomic add x[%4, %5, %6], %7
      }
    }"""
    for ends in ((4, 3, 5), (2, 2, 2), (1, 3, 5), (4, 1, 5), (4, 3, -7), (4, 3, 1)):
        x = np.zeros((5, 5, 6), np.int32)
        shared.run(text, {"x": x}, dict(zip("abc", ends)))
        want = np.zeros_like(x)
        want[1 : max(ends[0], 1), 1 : max(ends[1], 1), 1 : max(ends[2], 1)] = 1
        np.testing.assert_array_equal(x, want)


def test_temporaries_start_at_zero_in_every_launch(shared: Any) -> None:
    text = """kernel k(y: f64[1]) {
      temp $t: f64
      temp $u: u1
      bounds { %0: i32 = const 0 %1: i32 = const 5 } parallel %2: i32 in %0 .. %1 {
        %3: f64 = cast %2
        %4: f64 = atomic add $t[], %3
        %5: u1 = const true
        store $u[], %5
      }
      serial {
        %6: f64 = load $t[]
        %7: u1 = load $u[]
        %8: f64 = cast %7
        %9: i32 = const 0
        %10: i32 = const 1
        store y[%9], %6
        store y[%10], %8
      }
    }"""
    for _ in range(3):
        assert shared.run(text, {"y": np.zeros(2)})["y"].tolist() == [10.0, 1.0]


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Return the words of Philox4x32-10, computed with Python's integers, after Salmon et al. 2011."""
    k, c, mask = list(key), list(counter), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_philox_of_this_file_is_the_published_one() -> None:
    assert philox((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox((ones, ones), (ones,) * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


DRAWS: dict[str, Callable[[int, int], Any]] = {
    "f16": lambda w0, w1: (w0 >> 21) * 2.0**-11,
    "f32": lambda w0, w1: (w0 >> 8) * 2.0**-24,
    "f64": lambda w0, w1: ((w1 << 32 | w0) >> 11) * 2.0**-53,
    "u8": lambda w0, w1: w0 & 255,
    "u64": lambda w0, w1: w1 << 32 | w0,
    "u1": lambda w0, w1: bool(w0 & 1),
}


@pytest.mark.parametrize("t", DRAWS)
def test_random(shared: Any, t: str) -> None:
    """Draws 0 and 1 of each iteration of task 1; draws of a branch not taken are not counted."""
    text = f"""kernel k(y: {t}[2]) {{
      serial {{ %0: {t} = random }}
      bounds {{ %10: i32 = const 0 %11: i32 = shape y, 0 }} parallel %12: i32 in %10 .. %11 {{
        %13: u1 = const false
        if %13 {{ %14: f32 = random }}
        %15: i32 = const 0
        %16: i32 = const 1
        %17: {t} = random
        %18: {t} = random
        store y[%12, %15], %17
        store y[%12, %16], %18
      }}
    }}"""
    dtype = bool if t == "u1" else {"f": "float", "u": "uint"}[t[0]] + t[1:]
    got = shared.run(text, {"y": np.zeros((5, 2), dtype)}, draws=Draws(2**40 + 7, 3))["y"]
    words = [[philox((7, 3), (1, i, 0, d))[:2] for d in (0, 1)] for i in range(5)]
    want = np.array([[DRAWS[t](*pair) for pair in row] for row in words], dtype)
    np.testing.assert_array_equal(got, want)
