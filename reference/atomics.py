"""Atomics over many lanes: the outcome of one lane after the other, in lane order, old values included.

Where old values are not wanted, NumPy's unbuffered `ufunc.at` does exactly that. Where they are, lanes of one
address form a group; long groups are prefix scans (`accumulate` rounds after every step, as single additions do),
short ones go rank by rank, every rank touching each address once. min and max of reals go through integer keys that
order -0.0 before 0.0 and put NaN where it absorbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .frame import Vector
from .scalar import NUMPY

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}
"""The binary ufunc of each atomic but `exchange` and `cas`, on values or keys; equal to the row of NUMPY there."""


@dataclass(frozen=True)
class _Domain:
    """Where the ufunc has the operation's meaning: encode on the way in, decode on the way out."""

    encode: Callable[[Vector], Vector]
    decode: Callable[[Vector], Vector]


_PLAIN = _Domain(lambda x: x, lambda x: x)


def _fold(bits: Vector) -> Vector:
    """Sign-magnitude to two's complement and back: negative patterns get their magnitude bits flipped."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _keys(absorbing: str, real: np.dtype) -> _Domain:
    """Integers ordered as the reals are; NaN at the end that wins."""
    integer = np.dtype(f"i{real.itemsize}")
    info = np.iinfo(integer)
    nan = integer.type(info.min if absorbing == "min" else info.max)

    def encode(x: Vector) -> Vector:
        return np.where(x != x, nan, _fold(x.view(integer)))

    def decode(keys: Vector) -> Vector:
        return np.where(keys == nan, real.type(np.nan), _fold(keys).view(real))

    return _Domain(encode, decode)


def _domain(op: str, dtype: np.dtype) -> _Domain:
    return _keys(op, dtype) if op in ("min", "max") and dtype.kind == "f" else _PLAIN


def update_one(op: str, flat: Vector, index: int, value: Vector) -> Vector:
    """One atomic; gives the old value."""
    old: Vector = flat[index]
    flat[index] = value if op == "exchange" else NUMPY[op].meaning(old, value)
    return old


def update(op: str, flat: Vector, index: Vector, values: Vector) -> None:
    """All lanes in order. flat: 1-d memory; index, values: one element a lane, indices in range."""
    domain = _domain(op, flat.dtype)
    if op == "exchange":
        flat[index] = values
    elif domain is _PLAIN:
        UFUNCS[op].at(flat, index, values)
    else:
        places, member = np.unique(index, return_inverse=True)
        keys = domain.encode(flat[places])
        UFUNCS[op].at(keys, member, domain.encode(values))
        flat[places] = domain.decode(keys)


def fetch_and_update(op: str, flat: Vector, index: Vector, values: Vector) -> Vector:
    """As `update`; gives what each lane found."""
    by_place = np.argsort(index, kind="stable")
    places, starts, sizes = np.unique(index[by_place], return_index=True, return_counts=True)
    memory, operands = flat[places], values[by_place]
    if op == "exchange":
        memory, found = _exchange(memory, operands, starts, sizes)
    else:
        domain = _domain(op, flat.dtype)
        memory, found = _scan(UFUNCS[op], domain.encode(memory), domain.encode(operands), starts, sizes)
        memory, found = domain.decode(memory), domain.decode(found)
    flat[places] = memory
    old = np.empty_like(values)
    old[by_place] = found
    return old


def compare_and_swap(flat: Vector, index: Vector, expected: Vector, values: Vector) -> Vector:
    """Lanes in order: an element whose bits are those of `expected` becomes the value. Gives what each lane found.

    Lanes of one address go rank by rank, as many rounds as the largest group has lanes.
    """
    by_place = np.argsort(index, kind="stable")
    _, starts, sizes = np.unique(index[by_place], return_index=True, return_counts=True)
    old = np.empty_like(values)
    for rank in range(int(sizes.max(initial=0))):
        lanes = by_place[starts[sizes > rank] + rank]
        at = index[lanes]
        old[lanes] = found = flat[at]
        flat[at] = np.where(same_bits(found, expected[lanes]), values[lanes], found)
    return old


def same_bits(x: Vector, y: Vector) -> Vector:
    """Whether values have one bit pattern: a NaN is itself, -0.0 is not 0.0."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    same: Vector = np.asarray(x).view(integer) == np.asarray(y).view(integer)
    return same


def _exchange(memory: Vector, operands: Vector, starts: Vector, sizes: Vector) -> tuple[Vector, Vector]:
    """Each lane finds what the one before it in its group brought."""
    found = np.empty_like(operands)
    found[1:] = operands[:-1]
    found[starts] = memory
    return operands[starts + sizes - 1], found


def _scan(ufunc: np.ufunc, memory: Vector, operands: Vector, starts: Vector, sizes: Vector) -> tuple[Vector, Vector]:
    """Groups lie side by side in `operands`. Both loops together take O(sqrt(lanes)) rounds."""
    found = np.empty_like(operands)
    limit = int(np.sqrt(operands.size)) + 1
    for group in np.flatnonzero(sizes > limit):
        part = slice(starts[group], starts[group] + sizes[group])
        prefix = ufunc.accumulate(np.concatenate((memory[group : group + 1], operands[part])), dtype=memory.dtype)
        found[part], memory[group] = prefix[:-1], prefix[-1]
    short = np.flatnonzero(sizes <= limit)
    for rank in range(int(sizes[short].max(initial=0))):
        short = short[sizes[short] > rank]
        at = starts[short] + rank
        found[at] = memory[short]
        memory[short] = ufunc(memory[short], operands[at])
    return memory, found
