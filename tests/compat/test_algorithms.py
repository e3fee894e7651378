"""The algorithms of the peers give what NumPy gives, on every backend and for every type of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compat.algorithms import (
    PrefixSumExecutor,
    exclusive_scan_add,
    exclusive_scan_max,
    exclusive_scan_min,
    exclusive_scan_scratch_slots,
    parallel_sort,
    reduce_add,
    reduce_by_key_add,
    reduce_by_key_scratch_slots,
    reduce_max,
    reduce_min,
    reduce_scratch_slots,
    select,
    select_scratch_slots,
    sort,
    sort_scratch_slots,
)
from stackgrad.runtime.session import available
from stackgrad.runtime.usage_errors import FieldError

TYPES = ("i32", "u32", "f32", "i64", "u64", "f64")
LENGTHS = (1, 2, 255, 3001)
"""Fewer elements than blocks, and more, with a shorter last block."""


@pytest.fixture(params=["cpu", "vulkan"])
def arch(request: pytest.FixtureRequest) -> str:
    try:
        available(request.param)
    except sg.DeviceError as missing:
        pytest.skip(str(missing))
    sg.init(arch=request.param)
    return request.param


def drawn(name: str, n: int) -> np.ndarray:
    """Return random numbers of a type, many of which are equal."""
    generator = np.random.default_rng(n)
    if name.startswith("f"):
        # Without zeros of either sign, which a comparison takes as equal and the sort does not.
        return (np.round(generator.normal(size=n), 2) + 0.005).astype(getattr(sg, name).dtype)
    low = 0 if name.startswith("u") else -50
    return generator.integers(low, 50, n).astype(getattr(sg, name).dtype)


def held(values: np.ndarray) -> Any:
    """Return an ndarray with these numbers."""
    array = sg.ndarray(values.dtype, values.shape)
    array.from_numpy(values)
    return array


def run_or_skip(arch: str, name: str) -> None:
    if arch == "vulkan" and name.endswith("64"):
        pytest.skip("not every device has numbers of 64 bits")


@pytest.mark.rotating
@pytest.mark.parametrize("name", TYPES)
def test_sort_is_stable(arch: str, name: str) -> None:
    run_or_skip(arch, name)
    for n in LENGTHS:
        keys, values = drawn(name, n), np.arange(n, dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        field, moved = sg.field(getattr(sg, name), n), held(values)
        field.from_numpy(keys)
        parallel_sort(field, moved)
        assert np.array_equal(field.to_numpy(), keys[order])
        assert np.array_equal(moved.to_numpy(), values[order])


@pytest.mark.expensive
def test_sort_of_negative_zeros_and_infinities(arch: str) -> None:
    keys = held(np.array([0.0, np.inf, -0.0, -np.inf, 1e-40, -1e-40], np.float32))
    parallel_sort(keys)
    found = keys.to_numpy()
    assert np.array_equal(found, np.sort(found)) and np.signbit(found[2]) and not np.signbit(found[3])


@pytest.mark.expensive
def test_sort_by_the_lowest_bits_in_a_kernel_of_the_user(arch: str) -> None:
    n = 700
    keys = np.random.default_rng(1).integers(0, 1 << 20, n).astype(np.uint32)

    @sg.kernel
    def run(x: sg.types.ndarray(), y: sg.types.ndarray(), s: sg.types.ndarray(), count: sg.types.ndarray()):
        sort(x, y, x, y, s, count, key_dtype=sg.u32, has_values=False, end_bit=16, log256_max_n=2)

    x, y, s = held(keys), held(keys), sg.ndarray(sg.u32, sort_scratch_slots(n, 2))
    count = sg.ndarray(sg.i32, ())
    count.fill(n)
    run(x, y, s, count)
    assert np.array_equal(x.to_numpy(), keys[np.argsort(keys & 0xFFFF, kind="stable")])


@pytest.mark.rotating
@pytest.mark.parametrize("name", TYPES)
def test_scans_and_reductions(arch: str, name: str) -> None:
    run_or_skip(arch, name)
    dtype = getattr(sg, name)

    @sg.kernel
    def run(
        x: sg.types.ndarray(),
        out: sg.types.ndarray(),
        s: sg.types.ndarray(),
        r: sg.types.ndarray(),
        n: sg.i32,
        op: sg.template(),
    ):
        if sg.static(op == 0):
            exclusive_scan_add(x, out, s, n, dtype, 2)
            reduce_add(x, r, s, n, dtype, 2)
        elif sg.static(op == 1):
            exclusive_scan_min(x, out, s, n, dtype, 2)
            reduce_min(x, r, s, n, dtype, 2)
        else:
            exclusive_scan_max(x, out, s, n, dtype, 2)
            reduce_max(x, r, s, n, dtype, 2)

    for n in LENGTHS:
        # Whole numbers, so that sums are exact in any order.
        values = np.round(drawn(name, n) * 4).astype(dtype.dtype)
        slots = max(exclusive_scan_scratch_slots(n), reduce_scratch_slots(n))
        scratch = sg.ndarray(sg.u64 if name.endswith("64") else sg.u32, slots)
        for op, accumulate in enumerate((np.add.accumulate, np.minimum.accumulate, np.maximum.accumulate)):
            out, result = held(np.zeros(n, dtype.dtype)), sg.ndarray(dtype, 1)
            run(held(values), out, scratch, result, n, op)
            wanted = accumulate(values)
            assert np.array_equal(out.to_numpy()[1:], wanted[:-1]) and result[0] == wanted[-1]


@pytest.mark.expensive
def test_select(arch: str) -> None:
    @sg.kernel
    def run(
        x: sg.types.ndarray(),
        f: sg.types.ndarray(),
        out: sg.types.ndarray(),
        c: sg.types.ndarray(),
        s: sg.types.ndarray(),
        n: sg.i32,
    ):
        select(x, f, out, c, s, n, 2)

    for n in LENGTHS:
        values, flags = drawn("f32", n), (drawn("i32", n) > 0).astype(np.int32)
        out, count = held(np.zeros(n, np.float32)), sg.ndarray(sg.i32, 1)
        run(held(values), held(flags), out, count, sg.ndarray(sg.u32, select_scratch_slots(n)), n)
        assert count[0] == flags.sum() and np.array_equal(out.to_numpy()[: count[0]], values[flags == 1])


def test_reduce_by_key(arch: str) -> None:
    @sg.kernel
    def run(
        k: sg.types.ndarray(),
        v: sg.types.ndarray(),
        ko: sg.types.ndarray(),
        vo: sg.types.ndarray(),
        c: sg.types.ndarray(),
        s: sg.types.ndarray(),
        n: sg.i32,
    ):
        reduce_by_key_add(k, v, ko, vo, c, s, n, sg.i32, 2)

    for n in LENGTHS:
        keys, values = np.sort(drawn("i32", n)) // 9, drawn("i32", n)
        ko, vo, count = held(np.zeros(n, np.int32)), held(np.zeros(n, np.int32)), sg.ndarray(sg.i32, 1)
        run(held(keys), held(values), ko, vo, count, sg.ndarray(sg.u32, reduce_by_key_scratch_slots(n)), n)
        wanted, first = np.unique(keys, return_index=True)
        assert count[0] == len(wanted) and np.array_equal(ko.to_numpy()[: count[0]], wanted)
        assert np.array_equal(vo.to_numpy()[: count[0]], np.add.reduceat(values, first))


@pytest.mark.expensive
def test_prefix_sums_in_place(arch: str) -> None:
    for n in LENGTHS:
        values = drawn("i32", n)
        field = sg.field(sg.i32, n)
        field.from_numpy(values)
        PrefixSumExecutor(n).run(field)
        assert np.array_equal(field.to_numpy(), np.cumsum(values))


def test_mistakes() -> None:
    sg.init()
    with pytest.raises(FieldError, match="one axis of numbers of 32 or 64 bits"):
        parallel_sort(sg.field(sg.f32, (2, 2)))
    with pytest.raises(FieldError, match="give 5 elements"):
        PrefixSumExecutor(5).run(sg.field(sg.i32, 3))
    with pytest.raises(FieldError, match="use i32, u32 or f32"):
        PrefixSumExecutor(3).run(sg.field(sg.i64, 3))
