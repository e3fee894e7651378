"""Compute prefix sums, minima and maxima inside kernels."""

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
from .reduce import blocks_reduced


def exclusive_scan_scratch_slots(n: Any, log256_max_n: Any = None) -> Any:
    """Return the number of elements of scratch memory that a scan needs.

    Args:
        n: Number of elements to scan; any number needs the same.
        log256_max_n: Ignored.
    """
    return BLOCKS


@func
def starts_of_blocks(scratch: Any, first: Any, dtype: Any, op: Any) -> None:
    """Replace the reductions of blocks in scratch memory by the reduction of all earlier blocks.

    Args:
        scratch: The memory.
        first: Index of the entry of the first block.
        dtype: Type of the elements.
        op: ADD, MIN or MAX.
    """
    for _ in range(1):
        total = cast(static(identity_of(dtype, op)), dtype)
        for block in range(BLOCKS):
            own = loaded(scratch[first + block], dtype)
            scratch[first + block] = stored(total, dtype)
            total = combined(total, own, op)


@func
def _scanned(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, op: Any) -> None:
    """Store to each element of `out` the reduction of all elements of `arr` before it."""
    blocks_reduced(arr, scratch, n, dtype, op)
    starts_of_blocks(scratch, 0, dtype, op)
    for block in range(BLOCKS):
        size = block_size(n)
        total = loaded(scratch[block], dtype)
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            own = cast(arr[i], dtype)
            out[i] = total
            total = combined(total, own, op)


@func
def exclusive_scan_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the sum of `arr[0:i]` to `out[i]`, for each i below n.

    Args:
        arr: The elements.
        out: An array of at least n elements.
        scratch: Memory of u32, or of u64 for elements of 64 bits, of `exclusive_scan_scratch_slots(n)` elements.
        n: Number of elements.
        dtype: Type of the elements.
        log256_max_n: Ignored.
    """
    _scanned(arr, out, scratch, n, dtype, ADD)


@func
def exclusive_scan_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the minimum of `arr[0:i]` to `out[i]`; the arguments are those of `exclusive_scan_add`."""
    _scanned(arr, out, scratch, n, dtype, MIN)


@func
def exclusive_scan_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """Store the maximum of `arr[0:i]` to `out[i]`; the arguments are those of `exclusive_scan_add`."""
    _scanned(arr, out, scratch, n, dtype, MAX)
