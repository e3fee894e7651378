"""Define the algorithms of the peers that are called from Python: `parallel_sort` and `PrefixSumExecutor`."""

from __future__ import annotations

from typing import Any

from ...data.ndarrays import ndarray
from ...runtime.usage_errors import FieldError
from ...types import ndarray as array
from .blocks import ADD, BLOCKS, block_size, cast, func, i32, kernel, loaded, minimum, static, template, u32
from .reduce import blocks_reduced
from .scan import starts_of_blocks
from .sort import sort, sort_scratch_slots


@kernel
def _sort(
    keys: template(),  # type: ignore[valid-type] # annotations of the kernel language
    spare: array(),  # type: ignore[valid-type]
    values: template(),  # type: ignore[valid-type]
    moved: array(),  # type: ignore[valid-type]
    scratch: array(u32, 1),  # type: ignore[valid-type]
    n: array(i32, 0),  # type: ignore[valid-type]
    dtype: template(),  # type: ignore[valid-type]
    has_values: template(),  # type: ignore[valid-type]
) -> None:
    sort(keys, spare, values, moved, scratch, n, dtype, has_values, static(dtype.bits), 1)


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sort a field or ndarray of keys in ascending order, and values along with them; equal keys keep their order.

    Args:
        keys: A field or ndarray of one axis, of 32 or 64 bits.
        values: A field or ndarray of the same length, or None.

    Raises:
        FieldError: The keys have more than one axis, or elements of another width.
    """
    if len(keys.shape) != 1 or getattr(keys.dtype, "bits", 0) not in (32, 64):
        raise FieldError("parallel_sort takes one axis of numbers of 32 or 64 bits", "sort a copy of such numbers")
    length = keys.shape[0]
    count = ndarray(i32, ())
    count.fill(length)
    moved = values if values is not None else keys
    scratch = ndarray(u32, sort_scratch_slots(length))
    spare, spare_values = ndarray(keys.dtype, length), ndarray(moved.dtype, length)
    _sort(keys, spare, moved, spare_values, scratch, count, keys.dtype, values is not None)


@func
def _inclusive(arr: Any, scratch: Any, n: Any, dtype: Any) -> None:
    """Replace each element by the sum of all elements up to it."""
    blocks_reduced(arr, scratch, n, dtype, ADD)
    starts_of_blocks(scratch, 0, dtype, ADD)
    for block in range(BLOCKS):
        size = block_size(n)
        total = loaded(scratch[block], dtype)
        for i in range(minimum(block * size, n), minimum((block + 1) * size, n)):
            total += cast(arr[i], dtype)
            arr[i] = total


@kernel
def _run(
    arr: template(),  # type: ignore[valid-type] # annotations of the kernel language
    scratch: array(u32, 1),  # type: ignore[valid-type]
    n: i32,  # type: ignore[valid-type]
    dtype: template(),  # type: ignore[valid-type]
) -> None:
    _inclusive(arr, scratch, n, dtype)


class PrefixSumExecutor:
    """Replace elements by the sum of all elements up to them: `PrefixSumExecutor(n).run(x)`."""

    def __init__(self, length: int) -> None:
        self.sorting_length = length

    def run(self, input_arr: Any) -> None:
        """Sum up the first elements of an array in place.

        Args:
            input_arr: A field or ndarray of one axis, of i32, u32 or f32.

        Raises:
            FieldError: The array is shorter than the length, or of another type.
        """
        if len(input_arr.shape) != 1 or input_arr.shape[0] < self.sorting_length:
            raise FieldError(f"the array has the shape {input_arr.shape}", f"give {self.sorting_length} elements")
        if input_arr.dtype.bits != 32:
            raise FieldError(f"elements of {input_arr.dtype} are not summed up here", "use i32, u32 or f32")
        _run(input_arr, ndarray(u32, BLOCKS), self.sorting_length, input_arr.dtype)
