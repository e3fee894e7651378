"""Pack elements inside kernels: `select` packs flagged elements, `reduce_by_key_add` the sums of runs of equal keys."""

from __future__ import annotations

from typing import Any

from .blocks import ADD, BLOCKS, block_size, cast, func, i32, loaded, minimum, stored
from .scan import starts_of_blocks


def select_scratch_slots(n: Any) -> Any:
    """Return the number of u32 elements of scratch memory that `select` needs for any number of elements."""
    return BLOCKS


def reduce_by_key_scratch_slots(n: Any) -> Any:
    """Return the number of u32 elements of scratch memory that `reduce_by_key_add` needs for any number of elements."""
    return BLOCKS


@func
def select(arr: Any, flags: Any, out: Any, num_out: Any, scratch: Any, n: Any, log256_max_n: Any) -> None:
    """Pack the elements of `arr[0:n]` whose flag is 1 into the beginning of `out`, in their order.

    Args:
        arr: The elements.
        flags: A 0 or 1 for each element.
        out: An array of at least n elements.
        num_out: An array whose element 0 gets the number of packed elements.
        scratch: Memory of u32 of `select_scratch_slots(n)` elements.
        n: Number of elements.
        log256_max_n: Ignored.
    """
    for block in range(BLOCKS):
        size = block_size(n)
        count = 0
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            count += cast(flags[i], i32)
        scratch[block] = stored(count, i32)
        if block == 0:
            num_out[0] = 0
    starts_of_blocks(scratch, 0, i32, ADD)
    for block in range(BLOCKS):
        size = block_size(n)
        place = loaded(scratch[block], i32)
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            if flags[i] != 0:
                out[place] = arr[i]
                place += 1
        if block == BLOCKS - 1:
            num_out[0] = place


@func
def _begins_run(keys: Any, i: Any) -> Any:
    """Return 1 if a run of equal keys begins at an index, and 0 if the key before it is the same."""
    begins = 1
    if i > 0 and keys[i] == keys[i - 1]:
        begins = 0
    return begins


@func
def _runs_added(
    keys_in: Any, values_in: Any, keys_out: Any, values_out: Any, num_runs: Any, scratch: Any, n: Any, dtype: Any
) -> None:
    """Store the key and the sum of each run; scratch memory says how many runs begin before each block."""
    for block in range(BLOCKS):
        size = block_size(n)
        run = loaded(scratch[block], i32)
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            if _begins_run(keys_in, i) != 0:
                # The iteration that finds the beginning of a run adds up all of it, also what lies in later blocks.
                total = cast(values_in[i], dtype)
                at = i + 1
                while at < n and keys_in[minimum(at, n - 1)] == keys_in[i]:
                    total += cast(values_in[at], dtype)
                    at += 1
                keys_out[run] = keys_in[i]
                values_out[run] = total
                run += 1
        if block == BLOCKS - 1:
            num_runs[0] = run


@func
def reduce_by_key_add(
    keys_in: Any,
    values_in: Any,
    keys_out: Any,
    values_out: Any,
    num_runs: Any,
    scratch: Any,
    n: Any,
    value_dtype: Any,
    log256_max_n: Any,
) -> None:
    """Add up the values of each run of equal keys; runs keep their order.

    Args:
        keys_in: The keys; equal ones stand side by side.
        values_in: A value for each key.
        keys_out: An array of at least n elements, whose beginning gets the key of each run.
        values_out: An array of at least n elements, whose beginning gets the sum of each run.
        num_runs: An array whose element 0 gets the number of runs.
        scratch: Memory of u32 of `reduce_by_key_scratch_slots(n)` elements.
        n: Number of keys.
        value_dtype: Type of the values.
        log256_max_n: Ignored.
    """
    for block in range(BLOCKS):
        size = block_size(n)
        count = 0
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            count += _begins_run(keys_in, i)
        scratch[block] = stored(count, i32)
    starts_of_blocks(scratch, 0, i32, ADD)
    _runs_added(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype)
