"""Execute atomics in many lanes at once with NumPy, with the results of executing them lane by lane in order.

If no statement uses the old values, NumPy's unbuffered `ufunc.at` gives exactly these results. Else the lanes of one
address form a group. A long group is a prefix scan (`accumulate` rounds after every step, as single additions do).
Short groups are executed in rounds: round k executes the k-th lane of each group, so it touches each address once. min
and max of reals go through integer keys that order -0.0 before 0.0 and put NaN where it absorbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .frame import LaneVector
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
"""The binary ufunc of each atomic but `exchange` and `cas`, on values or keys; it equals the row of NUMPY on these."""


@dataclass(frozen=True)
class _Domain:
    """Hold functions that encode values as numbers on which a NumPy ufunc acts like an atomic, and decode them.

    Attributes:
        encode: turns values into these numbers
        decode: turns these numbers back into values
    """

    encode: Callable[[LaneVector], LaneVector]
    decode: Callable[[LaneVector], LaneVector]


_PLAIN = _Domain(lambda x: x, lambda x: x)


def _fold(bits: LaneVector) -> LaneVector:
    """Convert bits of integers between sign-magnitude and two's complement; the conversion is its own inverse."""
    # Negative patterns get their magnitude bits flipped.
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _keys(absorbing: str, real: np.dtype) -> _Domain:
    """Return the encoding of reals as ordered integers in which NaN wins the extreme `absorbing`, min or max."""
    integer = np.dtype(f"i{real.itemsize}")
    info = np.iinfo(integer)
    nan = integer.type(info.min if absorbing == "min" else info.max)

    def encode(x: LaneVector) -> LaneVector:
        return np.where(x != x, nan, _fold(x.view(integer)))

    def decode(keys: LaneVector) -> LaneVector:
        return np.where(keys == nan, real.type(np.nan), _fold(keys).view(real))

    return _Domain(encode, decode)


def _domain(op: str, dtype: np.dtype) -> _Domain:
    """Return the encoding under which NumPy executes an atomic operation on values of a dtype."""
    return _keys(op, dtype) if op in ("min", "max") and dtype.kind == "f" else _PLAIN


def update_one(op: str, flat: LaneVector, index: int, value: LaneVector) -> LaneVector:
    """Apply one atomic to element `index` of `flat`, and return the element's previous value."""
    old: LaneVector = flat[index]
    flat[index] = value if op == "exchange" else NUMPY[op].meaning(old, value)
    return old


def update(op: str, flat: LaneVector, index: LaneVector, values: LaneVector) -> None:
    """Apply an atomic operation to one element per lane, in lane order, without returning old values.

    Args:
        op: operation of the IR
        flat: memory of one axis
        index: element of each lane, in range
        values: operand of each lane
    """
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


def fetch_and_update(op: str, flat: LaneVector, index: LaneVector, values: LaneVector) -> LaneVector:
    """Apply an atomic to one element per lane, and return the value that each lane's element had before."""
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


def compare_and_swap(flat: LaneVector, index: LaneVector, expected: LaneVector, values: LaneVector) -> LaneVector:
    """Replace elements whose bits equal those of `expected`, in lane order. Return each element's previous value.

    Round k executes the k-th lane of each address, so there are as many rounds as the largest group has lanes.
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


def same_bits(x: LaneVector, y: LaneVector) -> LaneVector:
    """Return, by lane, True if two values have the same bits: a NaN equals itself, and -0.0 differs from 0.0."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    same: LaneVector = np.asarray(x).view(integer) == np.asarray(y).view(integer)
    return same


def _exchange(
    memory: LaneVector, operands: LaneVector, starts: LaneVector, sizes: LaneVector
) -> tuple[LaneVector, LaneVector]:
    """Execute exchanges of lanes that are sorted by element; the lanes of one element are a group.

    Args:
        memory: value of the element of each group
        operands: value that each lane stores
        starts: position of the first lane of each group
        sizes: number of lanes of each group

    Returns:
        The final value of each element, and the value that each lane found.
    """
    found = np.empty_like(operands)
    # Each lane finds what the lane before it in its group has stored.
    found[1:] = operands[:-1]
    found[starts] = memory
    return operands[starts + sizes - 1], found


def _scan(
    ufunc: np.ufunc, memory: LaneVector, operands: LaneVector, starts: LaneVector, sizes: LaneVector
) -> tuple[LaneVector, LaneVector]:
    """Execute an atomic in lanes that are sorted by element; the lanes of one element are a group.

    Both loops together take O(sqrt(lanes)) rounds.

    Args:
        ufunc: function that computes the new value of an element
        memory: value of the element of each group; it is overwritten
        operands: operand of each lane
        starts: position of the first lane of each group
        sizes: number of lanes of each group

    Returns:
        The final value of each element, and the value that each lane found.
    """
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
