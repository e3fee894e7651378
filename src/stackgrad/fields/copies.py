"""Copies from one array to another one: where someone takes derivatives, or records launches, they are launches.

Invariant: a copy that is seen so does what the copy by the host does, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backends.words import WATCHED
from ..session import RUNTIME

if TYPE_CHECKING:
    from .array import Array

Axes = tuple[int | None, ...]
"""For each axis of the memory that is read, the axis of the memory that is written; None for one of extent 1."""


def copied(target: Array, source: Array, axes: Axes) -> bool:
    """Copy by a launch, if that is seen by someone. False if the host is to copy instead: nobody looks, or the types
    are such that values decide whether they can be converted.
    """
    if not RUNTIME.words[WATCHED]:
        return False
    own = RUNTIME.threads.own
    seen = next((one for one in (*own.tapes[-1:], own.forward, RUNTIME.capture) if one is not None), None)
    if seen is None or not (source.dtype == target.dtype or source.dtype.is_real and target.dtype.is_real):
        return False
    target.check_alive()
    if target is source:  # nothing, or what makes its content a constant
        return all(tape.recording for tape in own.tapes) and not (own.forward is not None and own.forward.constant)
    seen.copy(target, source, axes)
    return True


def matched_axes(target: Any, source: Any) -> Axes | None:
    """How the axes of two fields of vectors or matrices match; None if they do not. A vector is a matrix of one column."""
    ours, theirs = ((*one.shape, *one.element_shape) for one in (target, source))
    if ours == theirs:
        numbers: list[int | None] = list(_in_memory(target))
    elif (*ours, 1) == theirs:
        numbers = [*_in_memory(target), None]
    elif ours == (*theirs, 1):
        numbers = [*_in_memory(target)[:-1]]
    else:
        return None
    places = _in_memory(source)
    return tuple(numbers[places.index(axis)] for axis in range(len(places)))


def _in_memory(one: Any) -> list[int]:
    """Where each axis of the field, and then of its elements, is in memory."""
    inner, outer = len(one.element_shape), len(one.shape)
    if one.element_first:
        return [*range(inner, inner + outer), *range(inner)]
    return list(range(outer + inner))
