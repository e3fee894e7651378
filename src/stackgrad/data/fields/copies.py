"""Copy one array to another: by a kernel if a tape, forward mode or capture is active, else by the host.

Invariant: the kernel and the host store the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...backends.words import WATCHED
from ...runtime.session import RUNTIME

if TYPE_CHECKING:
    from .array import Array

AxisMap = tuple[int | None, ...]
"""For each axis of the memory that is read, the axis of the memory that is written; None for an axis of extent 1."""


def copy_if_watched(target: Array, source: Array, axes: AxisMap) -> bool:
    """Copy an array by a kernel if a tape, forward mode or capture is active; return True if this was done.

    Args:
        target: The array to overwrite.
        source: The array to read.
        axes: How the axes match.

    Returns:
        False if the host must copy instead: no watcher is active, or only a look at the values can tell whether the
            types can be converted without loss.
    """
    if not RUNTIME.words[WATCHED]:
        return False
    own = RUNTIME.threads.own
    seen = next((one for one in (*own.tapes[-1:], own.forward, RUNTIME.capture) if one is not None), None)
    if seen is None or not (source.dtype == target.dtype or source.dtype.is_real and target.dtype.is_real):
        return False
    target.check_alive()
    if target is source:  # A copy to itself does nothing, or makes the content a constant.
        return all(tape.recording for tape in own.tapes) and not (own.forward is not None and own.forward.constant)
    seen.copy(target, source, axes)
    return True


def matched_axes(target: Any, source: Any) -> AxisMap | None:
    """Return, for each axis of the source's memory, the axis of the target's memory; None if the shapes differ.

    A vector matches a matrix of one column.
    """
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
    """Return the number, in the memory array, of each axis of a field, and then of each axis of its elements."""
    inner, outer = len(one.element_shape), len(one.shape)
    if one.element_first:
        return [*range(inner, inner + outer), *range(inner)]
    return list(range(outer + inner))
