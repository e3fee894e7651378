"""Sort keys, with values, inside kernels: a stable radix sort by digits of 8 bits, the lowest first."""

from __future__ import annotations

from typing import Any

from .blocks import bit_cast, cast, func, minimum, static, u32, u64

DIGITS = 256
"""Number of values of a digit."""
SORT_BLOCKS = 256
"""Maximum number of blocks; each counts its own digits, so scratch memory holds DIGITS counts for each."""


def sort_scratch_slots(n: Any, log256_max_n: Any = None) -> Any:
    """Return the number of u32 elements of scratch memory that `sort` needs.

    Args:
        n: Number of keys; any number needs the same.
        log256_max_n: Ignored.
    """
    return DIGITS * SORT_BLOCKS + DIGITS


@func
def _size(n: Any) -> Any:
    """Return the number of keys of each block but the last one."""
    return (n + (SORT_BLOCKS - 1)) // SORT_BLOCKS


@func
def _digit(key: Any, dtype: Any, shift: Any) -> Any:
    """Return one digit of 8 bits of a key, after mapping the key to an unsigned integer that sorts like the key.

    Args:
        key: The key.
        dtype: Its type.
        shift: Number of the lowest bit of the digit.
    """
    wide = static(u64 if dtype.bits == 64 else u32)
    bits = bit_cast(cast(key, dtype), wide)
    sign = cast(1, wide) << static(dtype.bits - 1)
    if static(dtype.is_real):
        # Negative reals are ordered from the greatest bits to the least, and lie below all others.
        if (bits & sign) != cast(0, wide):
            bits = ~bits
        else:
            bits = bits ^ sign
    elif static(dtype.is_signed):
        bits = bits ^ sign
    return cast((bits >> shift) & cast(255, wide), static(u32))


@func
def _sorted_by_digit(
    source: Any, target: Any, values: Any, moved: Any, scratch: Any, n: Any, dtype: Any, has_values: Any, shift: Any
) -> None:
    """Sort all keys, and the values with them, by one digit; keys with equal digits keep their order."""
    for block in range(SORT_BLOCKS):
        for digit in range(DIGITS):
            scratch[digit * SORT_BLOCKS + block] = cast(0, static(u32))
        for i in range(minimum(block * _size(n), n), minimum((block + 1) * _size(n), n)):
            scratch[_digit(source[i], dtype, shift) * SORT_BLOCKS + block] += cast(1, static(u32))
    for digit in range(DIGITS):
        total = cast(0, static(u32))
        for block in range(SORT_BLOCKS):
            total += scratch[digit * SORT_BLOCKS + block]
        scratch[DIGITS * SORT_BLOCKS + digit] = total
    for digit in range(DIGITS):
        first = cast(0, static(u32))
        for lower in range(digit):
            first += scratch[DIGITS * SORT_BLOCKS + lower]
        for block in range(SORT_BLOCKS):
            count = scratch[digit * SORT_BLOCKS + block]
            scratch[digit * SORT_BLOCKS + block] = first
            first += count
    for block in range(SORT_BLOCKS):
        for i in range(minimum(block * _size(n), n), minimum((block + 1) * _size(n), n)):
            slot = _digit(source[i], dtype, shift) * SORT_BLOCKS + block
            place = scratch[slot]
            target[place] = source[i]
            if static(has_values):
                moved[place] = values[i]
            scratch[slot] = place + cast(1, static(u32))


@func
def sort(
    keys: Any,
    tmp_keys: Any,
    values: Any,
    tmp_values: Any,
    scratch: Any,
    n: Any,
    key_dtype: Any,
    has_values: Any,
    end_bit: Any,
    log256_max_n: Any,
) -> None:
    """Sort `keys[0:n]` in ascending order, and `values` along with them; equal keys keep their order.

    Args:
        keys: The keys.
        tmp_keys: An array like `keys`.
        values: The values; any array unless `has_values`.
        tmp_values: An array like `values`.
        scratch: Memory of u32 of `sort_scratch_slots(n)` elements.
        n: A 0-d array of i32 that holds the number of keys.
        key_dtype: Type of the keys: u32, i32, f32, u64, i64 or f64.
        has_values: True if there are values.
        end_bit: Number of low bits of the keys to sort by, a multiple of 16.
        log256_max_n: Ignored.
    """
    for step in static(range(0, end_bit, 16)):
        _sorted_by_digit(keys, tmp_keys, values, tmp_values, scratch, n[()], key_dtype, has_values, step)
        _sorted_by_digit(tmp_keys, keys, tmp_values, values, scratch, n[()], key_dtype, has_values, step + 8)
