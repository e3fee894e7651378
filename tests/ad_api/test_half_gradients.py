"""Test f16 gradients of other libraries: kernels sum them in f32, and store the rounded sum to the library's array."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import stackgrad as sg
from stackgrad.data.half_accumulators import Accumulator, accumulator_of, accumulators_of, rounding_launch

sys.path.append(str(Path(__file__).parent))
from wrapped_kernels import many_shares  # noqa: E402


def test_jax_gets_the_rounded_sum() -> None:
    """156.25 in f32; a sum in f16 stops at 32."""
    f = sg.jax.wrap(many_shares, out={"y": ((1,), jnp.float32)})
    found = jax.grad(lambda x: f(x).sum())(jnp.ones(1, jnp.float16))
    assert found.dtype == jnp.float16 and found.tolist() == [156.25]


def test_accumulators_outlive_launches_and_what_is_written_between_counts() -> None:
    narrow = np.array([0.0, 1.0], np.float16)
    owner = type("Tensor", (), {})()
    wide = accumulator_of(narrow, owner)
    assert isinstance(wide, Accumulator) and wide.dtype == np.float32 and accumulator_of(narrow, owner) is wide
    for _ in range(10_000):
        with rounding_launch(accumulators_of([wide, narrow])):
            wide += np.float32(2.0**-6)
    assert narrow.tolist() == [156.25, 157.25]
    narrow[0] = 8.0  # by somebody else: what is not touched keeps its digits
    with rounding_launch(accumulators_of([wide])):
        wide += np.float32(2.0**-6)
    assert wide.tolist() == [8.015625, 157.265625] and narrow.tolist() == [8.015625, 157.25]


def test_infinities_and_nan_stay_what_they_are() -> None:
    narrow = np.zeros(3, np.float16)
    wide = Accumulator.of(narrow)
    wide.store(np.array([1e6, np.nan, -1e6]))
    assert np.isposinf(narrow[0]) and np.isnan(narrow[1]) and np.isneginf(narrow[2])
    with rounding_launch((wide,)):
        wide *= np.float32(0.5)
    assert (wide[0], wide[2]) == (5e5, -5e5) and np.isnan(wide[1])


def test_other_gradients_are_used_as_they_are() -> None:
    narrow, owner = np.zeros(2, np.float32), type("Tensor", (), {})()
    assert accumulator_of(narrow, owner) is narrow and accumulators_of([narrow]) == ()


def test_a_new_gradient_of_a_tensor_has_a_new_accumulator() -> None:
    owner = type("Tensor", (), {})()
    first = accumulator_of(np.zeros(2, np.float16), owner)
    second = accumulator_of(np.ones(2, np.float16), owner)
    assert second is not first and second.tolist() == [1.0, 1.0]
