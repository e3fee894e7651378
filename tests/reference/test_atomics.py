"""Test that atomics over many lanes equal applications of the scalar operation one after the other, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import ATOMIC_OPS, atomic_fits
from stackgrad.compiler.ir.types import SCALARS, Scalar
from stackgrad.reference.atomics import UFUNCS, compare_and_swap, fetch_and_update, update
from stackgrad.reference.scalar import NUMPY
from table_rows import each_row

LANES = 300
FITTING = [(op, t) for op in (*UFUNCS, "exchange") for t in SCALARS.values() if atomic_fits(op, t)]
SPREADS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "distinct": lambda rng: rng.permutation(LANES),
    "one": lambda rng: np.full(LANES, 7),
    "few": lambda rng: rng.integers(0, 5, LANES),
    "skewed": lambda rng: np.where(rng.random(LANES) < 0.5, 3, rng.integers(0, LANES, LANES)),
}


def contents(rng: np.random.Generator, t: Scalar, op: str) -> np.ndarray:
    """Return values whose result depends on the order: by rounding, overflow, zeros of both signs, and some NaN."""
    if not t.is_real:
        return rng.integers(0, 256, (LANES, t.size), np.uint8).view(f"u{t.size}").astype(t.dtype)[:, 0]
    x = rng.choice([0.1, -0.0, 0.0, 1.0, -1.0, 1e-3, 3.3], LANES) * rng.choice([1, 1, 1.37], LANES)
    if op in ("min", "max"):
        x[rng.integers(0, LANES, 4)] = [np.nan, -np.inf, np.inf, -0.0]
    return x.astype(t.dtype)


def one_by_one(op: str, flat: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Apply an atomic operation one element after the other, as the definition says, and return the old values."""
    old = np.zeros_like(values)
    for lane in range(LANES):
        old[lane] = flat[index[lane]]
        flat[index[lane]] = values[lane] if op == "exchange" else NUMPY[op](old[lane], values[lane])
    return old


def bits(x: np.ndarray) -> Any:
    """Return bit patterns, with one pattern for all NaNs."""
    if x.dtype.kind != "f":
        return x.tolist()
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.itemsize}").tolist()


@pytest.mark.expensive
@each_row("spread", SPREADS)
@each_row(("op", "t"), FITTING, ids=str)
def test_sequential_in_lane_order(op: str, t: Scalar, spread: str) -> None:
    rng = np.random.default_rng(len(op) * 100 + t.bits)
    index, values, start = SPREADS[spread](rng), contents(rng, t, op), contents(rng, t, op)
    expected, plain, fetched = start.copy(), start.copy(), start.copy()
    with np.errstate(all="ignore"):
        old = one_by_one(op, expected, index, values)
        update(op, plain, index, values)
        found = fetch_and_update(op, fetched, index, values)
    assert bits(plain) == bits(expected)
    assert bits(fetched) == bits(expected)
    assert bits(found) == bits(old)
    assert found.dtype == t.dtype


def test_ufuncs_cover_the_operations() -> None:
    assert set(UFUNCS) == set(ATOMIC_OPS) - {"exchange", "cas"}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("t", [t for t in SCALARS.values() if atomic_fits("cas", t)], ids=str)
def test_compare_and_swap_in_lane_order(t: Scalar, spread: str) -> None:
    rng = np.random.default_rng(t.bits)
    pool = np.array([0.0, -0.0, np.nan, 1.0] if t.is_real else [0, 1, 2], t.dtype)
    index, values, expected = SPREADS[spread](rng), rng.choice(pool, LANES), rng.choice(pool, LANES)
    flat = rng.choice(pool, LANES)
    want, old = flat.copy(), np.zeros(LANES, t.dtype)
    for lane, place in enumerate(index):
        old[lane] = want[place]
        if old[lane].tobytes() == expected[lane].tobytes():
            want[place] = values[lane]
    found = compare_and_swap(flat, index, expected, values)
    assert bits(flat) == bits(want)
    assert bits(found) == bits(old)
    assert found.dtype == t.dtype


def test_one_address_with_old_values_is_quick() -> None:
    """A counter that hands out tickets: every lane its own."""
    flat = np.zeros(1, np.int32)
    tickets = fetch_and_update("add", flat, np.broadcast_to(0, 200_000), np.broadcast_to(np.int32(1), 200_000))
    assert flat[0] == 200_000
    assert np.array_equal(tickets, np.arange(200_000))


@pytest.mark.parametrize("order", ["vector", "forward", "reverse"])
def test_statement(launch: Callable[..., Any], each: Callable[[str, str], str], order: str) -> None:
    """Tickets for odd lanes alone; the sum without its old value."""
    text = each(
        "x: i32[1], n: i32[1], s: f32[1]",
        """
        %1: i32 = const 0  %2: i32 = const 1  %3: i32 = bit_and %0, %2  %4: u1 = cast %3
        if %4 { %5: i32 = atomic add n[%1], %2  store x[%0], %5 }
        %6: f32 = cast %0  %7: f32 = atomic add s[%1], %6""",
    )
    x, n, s = np.full(101, -1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    launch(text, x=x, n=n, s=s, _order=order)
    tickets = np.arange(50)[::-1] if order == "reverse" else np.arange(50)
    assert x[1::2].tolist() == tickets.tolist()
    assert (x[::2] == -1).all()
    assert n[0] == 50
    assert s[0] == 5050
