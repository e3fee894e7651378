"""Control under both oracles: loops, exits and branches that lanes take differently.

Every case is compared three ways (see conftest.py); where the gradient has a short closed form, with that too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.oracles import dual, jax_oracle

X = "x: f64[1] grad, n: i32[1], y: f64[1] grad"
X_VALUES = np.array([0.7, -0.4, 1.3, 0.15, 2.1, -1.7])
COUNTS = np.array([3, 0, 5, 1, -2, 4], np.int32)

CASES = {
    "dynamic bounds": """
        %3: f64 = load x[%2]
        %4: i32 = load n[%2]
        local a: f64
        set a, %3
        for %5: i32 in %0 .. %4 trips %6: i32 {
          %7: f64 = get a
          %8: f64 = sin %7
          %9: f64 = add %8, %3
          set a, %9
        }
        %10: f64 = cast %6
        %11: f64 = get a
        %12: f64 = mul %10, %11
        store y[%2], %12""",
    "steps, both directions, triangular": """
        %3: f64 = load x[%2]
        local a: f64
        for %4: i32 in %0 .. %2 step 2 {
          for %5: i32 in %2 .. %4 step -1 descending trips %6: i32 {
            %7: f64 = get a
            %8: f64 = mul %7, %3
            %9: f64 = cast %5
            %10: f64 = add %8, %9
            set a, %10
          }
          %11: f64 = cast %6
          %12: f64 = get a
          %13: f64 = add %11, %12
          set a, %13
        }
        %14: f64 = get a
        %15: f64 = tanh %14
        store y[%2], %15""",
    "break and continue over two loops": """
        %3: f64 = load x[%2]
        %4: i32 = load n[%2]
        %5: f64 = const 1.5
        local a: f64
        set a, %3
        for %6: i32 in %0 .. %1 {
          for %7: i32 in %6 .. %1 {
            %8: f64 = get a
            %9: f64 = mul %8, %8
            %10: u1 = cmp_gt %9, %5
            if %10 {
              set a, %3
              break 2
            }
            %11: u1 = cmp_eq %7, %4
            if %11 {
              continue 2
            } else {
              %12: f64 = cos %8
              %13: f64 = add %12, %3
              set a, %13
            }
            %14: u1 = cmp_gt %7, %4
            if %14 {
              continue 1
            }
            %15: f64 = get a
            %16: f64 = const 0.5
            %17: f64 = mul %15, %16
            set a, %17
          }
        }
        %18: f64 = get a
        %19: f64 = mul %18, %3
        store y[%2], %19""",
    "while with until": """
        %3: f64 = load x[%2]
        %4: f64 = const 3.0
        %5: f64 = const 1.1
        local a: f64
        set a, %3
        local k: i32
        local done: u1
        while {
          %6: i32 = get k
          %7: i32 = const 12
          %8: u1 = cmp_lt %6, %7
        } test %8 until done trips %9: i32 {
          %10: f64 = get a
          %11: f64 = mul %10, %5
          set a, %11
          %12: i32 = get k
          %13: i32 = const 1
          %14: i32 = add %12, %13
          set k, %14
          %15: u1 = cmp_gt %11, %4
          set done, %15
        }
        %16: f64 = cast %9
        %17: f64 = get a
        %18: f64 = mul %16, %17
        store y[%2], %18""",
    "scope inside a loop": """
        %3: f64 = load x[%2]
        %4: f64 = const 0.0
        local s: f64
        for %5: i32 in %0 .. %1 {
          local r: f64
          scope {
            %6: i32 = load n[%5]
            %7: u1 = cmp_le %6, %5
            if %7 {
              %8: f64 = mul %3, %3
              set r, %8
              break 1
            }
            %9: u1 = cmp_lt %3, %4
            if %9 {
              continue 2
            }
            %10: f64 = exp %3
            set r, %10
          }
          %11: f64 = get r
          %12: f64 = get s
          %13: f64 = add %11, %12
          set s, %13
        }
        %14: f64 = get s
        store y[%2], %14""",
    "early return from a loop": """
        %3: f64 = load x[%2]
        store y[%2], %3
        for %4: i32 in %0 .. %1 {
          %5: i32 = load n[%2]
          %6: u1 = cmp_ge %4, %5
          if %6 {
            return
          }
          %7: f64 = load y[%2]
          %8: f64 = sin %7
          store y[%2], %8
        }
        %9: f64 = neg %3
        store y[%2], %9""",
    "booleans kept in locals": """
        %3: f64 = load x[%2]
        %4: f64 = const 0.0
        %5: u1 = cmp_gt %3, %4
        local positive: u1
        local late: u1
        set positive, %5
        %6: i32 = load n[%2]
        %7: i32 = const 2
        %8: u1 = cmp_gt %6, %7
        set late, %8
        %9: u1 = get positive
        %10: u1 = get late
        %11: u1 = bit_xor %9, %10
        %12: f64 = mul %3, %3
        %13: f64 = select %11, %12, %3
        if %9 {
          store y[%2], %13
        } else {
          %14: f64 = mul %13, %12
          store y[%2], %14
        }""",
}


@pytest.mark.parametrize("name", CASES)
def test_three_ways(name: str, parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    found = compare(parallel(X, CASES[name]), {"x": X_VALUES, "n": COUNTS, "y": np.full(6, 0.25)})
    assert np.isfinite(found["x"]).all() and found["x"].any()


def test_early_return_counts(parallel: Callable[..., Any]) -> None:
    """The i-th lane applies sin max(0, n) times, unless it runs out of the loop."""
    kernel, ones = parallel(X, CASES["early return from a loop"]), np.ones(6)
    found = jax_oracle.vjp(kernel, {"x": X_VALUES, "n": COUNTS, "y": ones}, {}, {"y": ones})
    for x, n, got in zip(X_VALUES, COUNTS, found["x"]):
        slope = 1.0
        for _ in range(max(n, 0)):
            slope, x = slope * np.cos(x), np.sin(x)
        assert got == pytest.approx(slope, rel=1e-12)
    np.testing.assert_array_equal(found["y"], 0)


GUARDED = """
    %3: f64 = load x[%2]
    %4: f64 = const 0.0
    %5: u1 = cmp_gt %3, %4
    local r: f64
    if %5 {
      %6: f64 = mul %3, %3
      %7: f64 = inv %6
      %8: f64 = sqrt %3
      %9: f64 = div %8, %6
      %10: f64 = pow %3, %8
      %11: f64 = log %3
      %12: f64 = add %7, %9
      %13: f64 = mul %10, %11
      %14: f64 = add %12, %13
      set r, %14
    } else {
      %15: f64 = const 2.0
      %16: f64 = mul %3, %15
      set r, %16
    }
    %17: f64 = get r
    %18: f64 = atomic add y[%0], %17"""


def test_guarded_singularities(parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    """Lanes outside the guard hold zeros, infinities and NaN; none of it reaches a gradient."""
    x, y = np.array([0.5, 0.0, 2.0, -1.0, -0.0, -1e200, -np.inf, np.nan]), np.zeros(1)
    kernel = parallel(X, GUARDED)
    found = jax_oracle.vjp(kernel, {"x": x, "n": COUNTS, "y": y}, {}, {"y": np.ones(1)})["x"]
    np.testing.assert_array_equal(found[~(x > 0)], 2.0)
    alone = jax_oracle.vjp(kernel, {"x": x[x > 0], "n": COUNTS, "y": y}, {}, {"y": np.ones(1)})["x"]
    np.testing.assert_allclose(found[x > 0], alone, rtol=1e-14)
    compare(kernel, {"x": np.array([0.5, -0.3, 2.0, -1.0, 0.25]), "n": COUNTS, "y": y})


def test_a_return_of_a_serial_task_ends_the_kernel(compare: Callable[..., Any]) -> None:
    text = """
        kernel k(x: f64[1] grad, stop: i32) {
          serial {
            %0: i32 = const 0
            %1: f64 = load x[%0]
            %2: f64 = mul %1, %1
            store x[%0], %2
            %3: i32 = arg stop
            %4: u1 = cmp_gt %3, %0
            if %4 { return }
          }
          serial {
            %5: i32 = const 0
            %6: f64 = load x[%5]
            %7: f64 = exp %6
            store x[%5], %7
          }
        }"""
    kernel, arrays = parse_kernel(text), {"x": np.array([0.5, 2.0])}
    for stop, value in ((1, 0.25), (0, np.exp(0.25))):
        compare(kernel, arrays, {"stop": stop})
        assert jax_oracle.run(kernel, arrays, {"stop": stop})["x"][0] == value
        assert dual.jvp(kernel, arrays, {"stop": stop}, {})[0]["x"][0] == value


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (3, 4)])
def test_boxes(shape: tuple[int, int], compare: Callable[..., Any]) -> None:
    kernel = parse_kernel("""
        kernel k(x: f32[2] grad, y: f64[1] grad) {
          bounds {
            %0: i32 = const 1
            %1: i32 = const 0
            %2: i32 = shape x, 0
            %3: i32 = shape x, 1
          } parallel %4: i32, %5: i32 in %0 .. %2, %1 .. %3 {
            %6: f32 = load x[%4, %5]
            %7: f64 = cast %6
            %8: f64 = mul %7, %7
            %9: f64 = atomic add y[%5], %8
          }
        }""")
    x = np.random.default_rng(1).normal(size=shape)
    arrays = {"x": x, "y": np.zeros(shape[1])}
    compare(kernel, arrays)
    seed = np.arange(1.0, shape[1] + 1)
    found = jax_oracle.vjp(kernel, arrays, {}, {"y": seed})
    np.testing.assert_allclose(found["x"], 2 * x * seed * (np.arange(shape[0]) >= 1)[:, None])
