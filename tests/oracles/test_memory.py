"""Memory under both oracles: order between lanes, atomics, local arrays, temporaries, arrays without an adjoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws
from stackgrad.harness.testing.oracles import common, dual, jax_oracle

RNG = np.random.default_rng(11)
X = "x: f64[1] grad, n: i32[1], y: f64[1] grad"
PICKS = np.array([2, 0, 2, 5, 2, 0], np.int32)

CASES = {
    "gather and scatter with duplicates": """
        %3: i32 = load n[%2]
        %4: f64 = load x[%3]
        %5: f64 = load x[%2]
        %6: f64 = mul %4, %5
        %7: f64 = atomic add y[%3], %6""",
    "in place": """
        %3: f64 = load x[%2]
        %4: f64 = mul %3, %3
        store x[%2], %4
        %5: f64 = load x[%2]
        %6: f64 = exp %5
        %7: f64 = mul %6, %3
        store x[%2], %7""",
    "store, load, overwrite": """
        %3: f64 = load x[%2]
        %4: f64 = sin %3
        store y[%2], %4
        %5: f64 = load y[%2]
        %6: f64 = const 2.0
        store y[%2], %6
        %7: f64 = mul %5, %3
        store x[%2], %7""",
    "minimum of all": "%3: f64 = load x[%2]  %4: f64 = mul %3, %3  %5: f64 = atomic min y[%0], %4",
    "maxima by cell": "%3: f64 = load x[%2]  %4: i32 = load n[%2]  %5: f64 = atomic max y[%4], %3",
    "product of all": "%3: f64 = load x[%2]  %4: f64 = sin %3  %5: f64 = atomic mul y[%0], %4",
    "exchange": "%3: f64 = load x[%2]  %4: f64 = exp %3  %5: f64 = atomic exchange y[%0], %4",
    "old values of one cell": """
        %3: f64 = load x[%2]
        %4: f64 = atomic add y[%0], %3
        %5: f64 = mul %4, %3
        store x[%2], %5""",
    "recurrence along the lanes": """
        %3: i32 = const 1
        %4: i32 = sub %2, %3
        %5: u1 = cmp_gt %2, %0
        if %5 {
          %6: f64 = load x[%4]
          %7: f64 = load x[%2]
          %8: f64 = mul %6, %7
          %9: f64 = add %8, %6
          store x[%2], %9
        }""",
    "sums read while they grow": """
        %3: f64 = load x[%2]
        %4: f64 = atomic add y[%0], %3
        %5: f64 = load y[%0]
        %6: f64 = sin %5
        store x[%2], %6""",
    "local array with dynamic indices": """
        local_array h: f64[4]
        %3: f64 = load x[%2]
        %4: i32 = load n[%2]
        %5: i32 = const 3
        %6: i32 = bit_and %4, %5
        for %7: i32 in %0 .. %1 {
          %8: i32 = bit_xor %7, %6
          %9: i32 = bit_and %8, %5
          %10: f64 = get_element h[%9]
          %11: f64 = cos %10
          %12: f64 = mul %11, %3
          %13: i32 = bit_and %7, %5
          set_element h[%13], %12
        }
        %14: f64 = get_element h[%6]
        store y[%2], %14""",
}


@pytest.mark.parametrize("name", CASES)
def test_three_ways(name: str, parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    arrays = {"x": np.array([0.7, -0.4, 1.3, 0.2, 2.1, -1.7]), "n": PICKS, "y": np.full(6, 0.9)}
    found = compare(parallel(X, CASES[name]), arrays)
    assert found["x"].any()


def test_recurrences_run_in_order_over_many_lanes(parallel: Callable[..., Any]) -> None:
    """x[i] += x[i] x[i-1] in row-major order, however the lanes are grouped."""
    x = RNG.uniform(-0.5, 0.5, 40)
    kernel = parallel(X, CASES["recurrence along the lanes"])
    expected = x.copy()
    for i in range(1, 40):
        expected[i] = expected[i - 1] * expected[i] + expected[i - 1]
    got = jax_oracle.run(kernel, {"x": x, "n": PICKS, "y": np.zeros(1)}, {})
    np.testing.assert_allclose(got["x"], expected, rtol=1e-14)


@pytest.mark.expensive
def test_thousands_of_lanes(parallel: Callable[..., Any]) -> None:
    x, y = RNG.normal(size=10_000), np.array([0.5])
    kernel = parallel(X, CASES["minimum of all"].replace("mul %3, %3", "exp %3"))
    got = jax_oracle.vjp(kernel, {"x": x, "n": PICKS, "y": y}, {}, {"y": np.ones(1)})
    best = np.exp(x).argmin()
    assert got["y"][0] == 0 and got["x"][best] == pytest.approx(np.exp(x[best]), rel=1e-14)
    assert np.count_nonzero(got["x"]) == 1


def test_adjoints_of_a_product(parallel: Callable[..., Any]) -> None:
    """d(y x0 x1 ...)/dx_i is the product of all others, also where one factor is zero."""
    x = np.array([0.5, -2.0, 0.0, 3.0, 1.5])
    kernel = parallel(X, "%3: f64 = load x[%2]  %4: f64 = atomic mul y[%0], %3")
    got = jax_oracle.vjp(kernel, {"x": x, "n": PICKS, "y": np.array([2.0])}, {}, {"y": np.ones(1)})
    np.testing.assert_allclose(got["x"], [2.0 * np.delete(x, i).prod() for i in range(5)])
    np.testing.assert_array_equal(got["y"], 0.0)


TWO_TASKS = {
    "temps": "temp $sum: f64 temp $count: i32",
    "after": """
    serial {
      %10: f64 = load $sum[]
      %11: i32 = load $count[]
      %12: f64 = cast %11
      %13: f64 = div %10, %12
      %14: i32 = const 0
      store y[%14], %13
    }""",
}


def test_temporaries_carry_derivatives(parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    body = """
        %3: f64 = load x[%2]
        %4: f64 = mul %3, %3
        %5: f64 = atomic add $sum[], %4
        %6: i32 = const 1
        %7: i32 = atomic add $count[], %6"""
    x = RNG.normal(size=6)
    arrays = {"x": x, "n": PICKS, "y": np.zeros(1)}
    compare(parallel(X, body, **TWO_TASKS), arrays)
    got = jax_oracle.vjp(parallel(X, body, **TWO_TASKS), arrays, {}, {"y": np.ones(1)})
    np.testing.assert_allclose(got["x"], x / 3)


STOPPING = """
    %3: f64 = load x[%2]
    store m[%2], %3
    %4: f64 = load m[%2]
    %5: f64 = mul %3, %4
    store y[%2], %5"""


@pytest.mark.parametrize(("grad", "named", "factor"), [("", (), 1), (" grad", (), 2), ("", ("m",), 2)])
def test_a_store_without_an_adjoint_stops(
    parallel: Callable[..., Any], grad: str, named: tuple[str, ...], factor: int
) -> None:
    """y = x m with m = x: x counts once where m has no adjoint, twice where it has or is asked for."""
    kernel = parallel(f"x: f64[1] grad, m: f64[1]{grad}, y: f64[1] grad", STOPPING)
    x = np.array([0.5, -1.5, 2.0])
    arrays = {"x": x, "m": np.ones(3), "y": np.ones(3)}
    got = jax_oracle.vjp(kernel, arrays, {}, {"y": np.ones(3)}, ["x", *named])
    np.testing.assert_array_equal(got["x"], factor * x)
    _, moved = dual.jvp(kernel, arrays, {}, {"x": np.ones(3), **{name: np.zeros(3) for name in named}})
    np.testing.assert_array_equal(moved["y"], factor * x)
    assert ("m" in moved) is (factor == 2)


def test_philox_matches_published_vectors() -> None:
    """Known answers of Random123 for philox4x32-10."""
    vectors = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, expected in vectors:
        words = common.philox(np.array(counter, np.uint64)[:, None], key)
        assert tuple(words[:, 0].tolist()) == expected


def test_draws(parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    """Draws depend on the iteration and on how many it made before, not on what its neighbors draw."""
    body = """
        %3: f64 = load x[%2]
        %4: i32 = load n[%2]
        for %5: i32 in %0 .. %4 {
          %6: f32 = random
          %7: f64 = cast %6
          %8: f64 = atomic add y[%2], %7
        }
        %9: f64 = random
        %10: f64 = mul %3, %9
        store x[%2], %10"""
    kernel, arrays = parallel(X, body), {"x": np.ones(6), "n": PICKS, "y": np.zeros(6)}
    compare(kernel, arrays)
    first, again, other = (jax_oracle.run(kernel, arrays, {}, Draws(5, k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(first["x"], again["x"])
    assert (first["x"] != other["x"]).all() and len(set(first["x"])) == 6
    assert ((first["x"] >= 0) & (first["x"] < 1)).all()
