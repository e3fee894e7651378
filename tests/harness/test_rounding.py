"""The bound: what it lets pass, and that nothing else passes."""

from __future__ import annotations

import numpy as np
import pytest
from launches import pointwise
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.rounding import (
    Precision,
    Sensitivity,
    difference,
    moved_scalars,
    narrowest_type,
    perturb_by_largest,
    perturb_by_rounding,
    perturb_in_all_ways,
    sensitivity,
)

DOUBLE = Precision(2.0**-53, 2.0**-1074)
SINGLE = Precision(2.0**-24, 2.0**-149)


def test_precision_is_that_of_the_narrowest_real() -> None:
    mixed = pointwise("%4: f16 = cast %3\n%9: f64 = cast %4")
    assert str(narrowest_type(mixed)) == "f16" and Precision.of(mixed).u == 2.0**-11
    assert Precision.of(pointwise("%9: T = sin %3", "f32")) == SINGLE
    assert Precision.of(parse_kernel("kernel k(n: i32[1]) { serial { return } }")) == Precision(0, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_moves_change_every_number_by_an_ulp_or_two(dtype: type) -> None:
    u = float(np.finfo(dtype).eps) / 2
    x = {"x": np.array([1.0, 1.999, 2.0, -3.5, 1e-3] * 20, dtype), "n": np.arange(3)}
    there = perturb_by_rounding(x, u, 0)
    steps = np.abs((there["x"] - x["x"]) / np.spacing(np.abs(x["x"])))
    assert there["x"].dtype == dtype and there["n"] is x["n"]
    assert steps.min() >= 0.5 and steps.max() <= 2
    assert {-1, 1} == set(np.sign(there["x"] - x["x"]).tolist())


def test_moves_leave_zeros_and_repeat_themselves() -> None:
    x = {"x": np.array([0.0, -0.0, np.inf, 1.0])}
    there = perturb_by_rounding(x, 1e-3, "a")
    np.testing.assert_array_equal(there["x"][:3], x["x"][:3])
    assert there["x"][3] != 1.0 and there["x"][3] == perturb_by_rounding(x, 1e-3, "a")["x"][3]


def test_nudges_move_zeros() -> None:
    x = {"x": np.array([0.0, 8.0])}
    up, down = perturb_by_largest(x, 2.0**-53, 0, 1.0)["x"], perturb_by_largest(x, 2.0**-53, 0, -1.0)["x"]
    assert up[0] == -down[0]
    assert 1 <= abs(up[0]) / (8 * 4 * 2.0**-53) <= 4
    assert perturb_by_largest({"x": np.zeros(1)}, 2.0**-53, 0, 1.0)["x"][0] != 0


def test_nudges_part_what_ties_across_arrays() -> None:
    """Two arrays with the same content: some pair moves by different steps, and most pairs do."""
    same = {"x": np.ones(64), "y": np.ones(64)}
    moved_apart = perturb_by_largest(same, 2.0**-53, 0, 1.0)
    assert np.count_nonzero(moved_apart["x"] != moved_apart["y"]) > 48


def test_some_move_parts_each_tie() -> None:
    """A tie that no move parts looks like a gradient that JAX, with halves for both, contradicts."""
    same = {"x": np.full(256, 1.25), "y": np.full(256, 1.25)}
    moves = list(perturb_in_all_ways(same, 2.0**-53))
    assert np.all(np.any([there["x"] != there["y"] for there in moves], axis=0))


def test_real_scalars_move_and_integers_stay() -> None:
    kernel = parse_kernel("kernel k(a: f32, n: i32) { serial { return } }")
    there = moved_scalars({"a": 1.0, "n": 3}, kernel, 2.0**-24, 0)
    assert there["n"] == 3 and abs(there["a"] - 1.0) == 2.0**-23


def test_bound_by_hand() -> None:
    """64 delta + 64 u size + 64 least."""
    known = sensitivity({"x": np.array([1.0, -4.0])}, [{"x": np.array([1.0, -4.5])}])["x"]
    assert (known.delta, known.size) == (0.5, 4.0)
    assert known.bound(DOUBLE) == 64 * 0.5 + 64 * 2.0**-53 * 4 + 64 * 2.0**-1074
    assert not known.decides(DOUBLE)


def test_integers_must_be_equal_where_rounding_changes_none() -> None:
    big = np.array([10**6], np.int64)
    known = sensitivity({"n": big}, [{"n": big}])["n"]
    assert known.bound(SINGLE) == 0
    assert difference(big, big + 1)[0] > known.bound(SINGLE)


def test_integers_beyond_the_reals() -> None:
    a = np.array([2**53], np.int64)
    assert difference(a, a + 1) == (1.0, True)
    assert difference(a, a) == (0.0, True)


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [1, np.nan], False),
        ([np.inf], [np.inf], True),
        ([np.inf], [-np.inf], False),
        ([np.inf], [1e308], False),
    ],
)
def test_not_numbers_must_match(a: list[float], b: list[float], alike: bool) -> None:
    assert difference(np.array(a), np.array(b))[1] is alike


def test_poison_and_indecision() -> None:
    base = {"x": np.array([1.0, 2.0])}
    assert sensitivity(base, [{"x": np.array([1.0, np.nan])}])["x"].poisoned
    assert sensitivity(base, [{"x": np.array([1.0, 2.0019])}])["x"].decides(DOUBLE)
    assert not sensitivity(base, [{"x": np.array([1.0, 2.0021])}])["x"].decides(DOUBLE)
    assert Sensitivity().decides(DOUBLE), "an array of zeros that nothing moves"


def test_half_precision_decides_within_its_own_rounding() -> None:
    half = Precision(2.0**-11, 2.0**-24)
    known = Sensitivity(delta=0.002, size=1.0)
    assert known.decides(half) and not known.decides(SINGLE)
    assert not Sensitivity(delta=0.04, size=1.0).decides(half)


def test_adjoints_are_as_large_as_what_they_are_added_to() -> None:
    known = sensitivity({"x": np.zeros(1)}, [{"x": np.array([1e-16])}], {"x": np.ones(1)})["x"]
    assert known.size == 1 and known.decides(DOUBLE)
