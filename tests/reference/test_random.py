"""Test the random generator against published values, the conversion of its words, and draws of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws
from stackgrad.compiler.ir.types import SCALARS, Scalar
from stackgrad.reference.random import philox, uniform

ANSWERS = [  # counter, key, output: kat_vectors of Random123, philox4x32 with 10 rounds
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), ANSWERS)
def test_published_answers(counter: tuple[int, ...], key: tuple[int, int], output: tuple[int, ...]) -> None:
    assert tuple(int(w) for w in philox(counter, key)) == output


def test_lanes_are_independent() -> None:
    counters = [np.array(c, np.int64) for c in zip(*(c for c, _, _ in ANSWERS[::2]), strict=True)]
    both = philox(tuple(counters), ANSWERS[2][1])
    assert tuple(int(w[1]) for w in both) == ANSWERS[2][2]


def model(dtype: Scalar, w0: int, w1: int) -> Any:
    """Return the number that docs/ir.md defines for two random words."""
    both = (w1 << 32) + w0
    if dtype.is_bool:
        return bool(both & 1)
    if dtype.is_real:
        return {16: (w0 >> 21) * 2.0**-11, 32: (w0 >> 8) * 2.0**-24, 64: (both >> 11) * 2.0**-53}[dtype.bits]
    low = both & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


@pytest.mark.parametrize("dtype", SCALARS.values(), ids=str)
def test_words_to_numbers(dtype: Scalar) -> None:
    place = np.array([0, 1, 2**32 - 1, 2**32, 2**40 + 3])
    got = uniform(dtype, (7, 9), 3, place, 5)
    assert got.dtype == dtype.dtype
    for lane, n in enumerate(place.tolist()):
        w0, w1, _, _ = (int(w) for w in philox((3, n & 0xFFFFFFFF, n >> 32, 5), (7, 9)))
        assert got[lane].item() == model(dtype, w0, w1)


@pytest.mark.parametrize("dtype", [SCALARS[n] for n in ("f16", "f32", "f64")], ids=str)
def test_reals_fill_the_unit_interval(dtype: Scalar) -> None:
    x = uniform(dtype, (1, 2), 0, np.arange(100_000), 0).astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 0.005
    assert abs((x**2).mean() - 1 / 3) < 0.005


def test_kernel_counts_draws_of_each_iteration(launch: Callable[..., Any], each: Callable[[str, str], str]) -> None:
    """Odd iterations draw once more in between: their third number is what the even ones have as their second."""
    text = each(
        "x: f32[1], y: f32[1]",
        """
        %1: f32 = random  store x[%0], %1
        %2: i32 = const 1  %3: i32 = bit_and %0, %2  %4: u1 = cast %3
        if %4 { %5: f32 = random }
        %6: f32 = random  store y[%0], %6""",
    )
    for order in ("vector", "reverse"):
        x, y = np.zeros((2, 50), np.float32)
        launch(text, x=x, y=y, _draws=Draws(11, 4), _order=order)
        n = np.arange(50)
        assert np.array_equal(x, uniform(SCALARS["f32"], (11, 4), 0, n, 0))
        assert np.array_equal(y, uniform(SCALARS["f32"], (11, 4), 0, n, 1 + n % 2))


def test_iteration_is_the_row_major_number_in_the_box(launch: Callable[..., Any]) -> None:
    x = np.zeros((3, 4), np.int32)
    launch(
        """kernel f(x: i32[2]) {
        serial { %9: i32 = random  %10: i32 = const 0  store x[%10, %10], %9 }
        bounds { %0: i32 = const 1 %1: i32 = const 3 %2: i32 = const 4 } parallel %3: i32, %4: i32 in %0 .. %1, %0 .. %2
        { %5: i32 = random  store x[%3, %4], %5 } }""",
        x=x,
        _draws=Draws(1, 2),
    )
    assert x[0, 0] == uniform(SCALARS["i32"], (1, 2), 0, np.int64(0), 0)
    assert np.array_equal(x[1:, 1:].ravel(), uniform(SCALARS["i32"], (1, 2), 1, np.arange(6), 0))
