"""Reduce arrays inside kernels: sum, minimum and maximum, in an order that the number of elements alone decides."""

from __future__ import annotations

from typing import Any

from .blocks import (
    ADD,
    BLOCKS,
    MAX,
    MIN,
    block_size,
    cast,
    combined,
    func,
    identity_of,
    loaded,
    minimum,
    static,
    stored,
)


def reduce_scratch_slots(n: Any, log256_max_n: Any = None) -> Any:
    """Return the number of elements of scratch memory that a reduction needs.

    Args:
        n: Number of elements to reduce; any number needs the same.
        log256_max_n: Ignored.
    """
    return BLOCKS


@func
def blocks_reduced(arr: Any, scratch: Any, n: Any, dtype: Any, op: Any) -> None:
    """Store the reduction of each block to scratch memory.

    Args:
        arr: The elements.
        scratch: Memory of u32, or of u64 for elements of 64 bits.
        n: Number of elements.
        dtype: Their type.
        op: ADD, MIN or MAX.
    """
    for block in range(BLOCKS):
        size = block_size(n)
        total = cast(static(identity_of(dtype, op)), dtype)
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            total = combined(total, cast(arr[i], dtype), op)
        scratch[block] = stored(total, dtype)


@func
def _reduced(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, op: Any) -> None:
    """Store the reduction of the first n elements to `out[0]`."""
    blocks_reduced(arr, scratch, n, dtype, op)
    for _ in range(1):
        total = cast(static(identity_of(dtype, op)), dtype)
        for block in range(BLOCKS):
            total = combined(total, loaded(scratch[block], dtype), op)
        out[0] = total


@func
def reduce_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the sum of `arr[0:n]` to `out[0]`.

    Args:
        arr: The elements.
        out: An array of at least one element.
        scratch: Memory of u32, or of u64 for elements of 64 bits, of `reduce_scratch_slots(n)` elements.
        n: Number of elements.
        dtype: Type of the elements.
        log256_max_n: Ignored.
    """
    _reduced(arr, out, scratch, n, dtype, ADD)


@func
def reduce_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the minimum of `arr[0:n]` to `out[0]`; the arguments are those of `reduce_add`."""
    _reduced(arr, out, scratch, n, dtype, MIN)


@func
def reduce_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the maximum of `arr[0:n]` to `out[0]`; the arguments are those of `reduce_add`."""
    _reduced(arr, out, scratch, n, dtype, MAX)
