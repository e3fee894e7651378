"""Implement index offsets of fields: indices run from `offset` to `offset + shape` instead of from 0.

Invariant: a field, its members, its adjoint and its tangent have one offset, which is fixed when the field is placed;
() means that indices begin at 0. Memory begins at the first element: only indices are shifted.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ...compiler.errors import OutOfBounds
from ...runtime.usage_errors import FieldError

if TYPE_CHECKING:
    from .array import Array


def checked_offset(offset: Any, rank: int) -> tuple[int, ...]:
    """Return an offset as a tuple with one integer for each axis, or () if all are 0.

    Raises:
        FieldError: The offset contains something other than integers, or does not have one integer for each axis.
    """
    if offset is None:
        return ()
    given = tuple(offset) if isinstance(offset, (tuple, list)) else (offset,)
    try:
        found = tuple(map(operator.index, given))
    except TypeError:
        raise FieldError(f"the offset {offset!r} is not made of integers", "give one integer for each axis") from None
    if not any(found):
        return ()
    if len(found) != rank:
        raise FieldError(f"the offset {offset!r} of a field with {rank} axes", "give one integer for each axis")
    return found


def set_offset(arrays: tuple[Array, ...], offset: tuple[int, ...]) -> None:
    """Set the first index of each axis, the offset, of arrays and of their adjoints and tangents.

    Adjoints and tangents among the given arrays are skipped, because their primals determine their offsets.
    """
    for array in arrays:
        if array.is_grad:
            continue
        for one in (array, array._grad, array._dual):
            if one is not None:
                one.offset = offset
                one.describe()


def described(shape: tuple[int, ...], offset: tuple[int, ...]) -> str:
    """Return a text with the shape of an array, and with its first indices if they are not 0."""
    return f"shape is {shape} and whose indices begin at {offset}" if offset else f"shape is {shape}"


def place_of(field: Any, index: Any) -> tuple[int, ...]:
    """Return the position in memory of the element at an index. Raise OutOfBounds if there is no such element.

    Args:
        field: A field or ndarray.
        index: An integer, a tuple, list or vector of them, or None for a single number.

    Raises:
        FieldError: The number of indices is wrong, or one is no integer.
        OutOfBounds: An index is outside.
    """
    shape: tuple[int, ...] = field.shape
    indices = () if index is None else index if isinstance(index, tuple) else (index,)
    if len(indices) != len(shape):
        indices = _spread(indices)
        if len(indices) != len(shape):
            want = "x[None]" if not shape else f"{len(shape)} indices"
            raise FieldError(f"{field.label} got {len(indices)} indices", f"it takes {want}")
    try:
        place = tuple(map(operator.index, indices))
    except TypeError:
        raise FieldError(
            f"{field.label} got the index {index!r}", "indices are integers; use to_numpy() for slices"
        ) from None
    offset: tuple[int, ...] = field.offset
    if offset:
        place = tuple(map(operator.sub, place, offset))
    for axis, (i, extent) in enumerate(zip(place, shape)):
        if not 0 <= i < extent:
            given = i + offset[axis] if offset else i
            whose = described(shape, offset)
            raise OutOfBounds(f"index {given} of axis {axis} is outside {field.label}, whose {whose}")
    return place


def _spread(indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the separate indices in `x[[i, j]]` or `x[vector]`, and () for `x[None]`; others are unchanged."""
    if indices == (None,):
        return ()
    if len(indices) == 1 and (isinstance(indices[0], list) or getattr(indices[0], "is_stackgrad_matrix", False)):
        return tuple(indices[0])
    return indices
