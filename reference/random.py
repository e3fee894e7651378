"""Compute random numbers with Philox4x32-10, a generator whose output is a pure function of a counter and key.

All words are u32; arithmetic is done in u64, where the product of two words is exact.

Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler.ir.types import Scalar

CounterArray = npt.NDArray[Any]
Words = tuple[CounterArray, CounterArray, CounterArray, CounterArray]

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def _word(x: CounterArray | int) -> CounterArray:
    """Return the low 32 bits of each number, as u64."""
    return np.asarray(x).astype(np.uint64) & _LOW


def philox(counter: tuple[CounterArray | int, ...], key: tuple[int, int]) -> Words:
    """Return the four output words (u32 in u64 arrays) of each counter; the words of the counter are broadcast."""
    c0, c1, c2, c3 = (_word(c) for c in counter)
    k0, k1 = (k & 0xFFFFFFFF for k in key)
    for _ in range(_ROUNDS):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = ((p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW)
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(
    dtype: Scalar, key: tuple[int, int], task: int, iteration: CounterArray, number: CounterArray | int
) -> CounterArray:
    """Return the random number of each iteration's draw `number`: reals in [0, 1), or integers over all bits.

    Args:
        dtype: dtype of the draw
        key: seed and launch
        task: index of the task
        iteration: row-major numbers of the iterations, i64
        number: number of the draw in each iteration, or one number for all
    """
    place = np.asarray(iteration).astype(np.uint64)
    w0, w1, _, _ = philox((task, place & _LOW, place >> _HALF, number), key)
    if dtype.is_real:
        return _real(dtype, w0, w1)
    both = (w1 << _HALF) | w0
    return (both & np.uint64(1)) != 0 if dtype.is_bool else both.astype(dtype.dtype)


def _real(dtype: Scalar, w0: CounterArray, w1: CounterArray) -> CounterArray:
    """Return random reals in [0, 1), made of the upper bits of two random 32-bit words."""
    # Every value is a multiple of 2^-digits below 1, so the conversions are exact.
    bits = {16: w0 >> np.uint64(21), 32: w0 >> np.uint64(8), 64: ((w1 << _HALF) | w0) >> np.uint64(11)}[dtype.bits]
    digits = {16: 11, 32: 24, 64: 53}[dtype.bits]
    return (bits.astype(np.float64) * 2.0**-digits).astype(dtype.dtype)
