"""Detect writes by other code to arrays whose memory was exported, by comparing the memory with copies.

Code that holds a view of an array can write the array without telling the runtime. The values written in this way are
constant, like those of a write that the runtime sees: adjoints and tangents of the earlier contents become 0. So a
tape, and forward mode, keep a copy of each exported array with a derivative that their launches touched, and compare
the copy with memory before anything touches the array again. An array that was never exported costs nothing.

Invariant: outside of launches and of writes that the runtime sees, a copy differs from memory only where something was
written without notice. A write that leaves the same bits is not noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ..compiler.sizing.regions import Box
from ..data.fields import Array
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..launch.program import Binding


@dataclass(eq=False, slots=True)
class _ArrayContent:
    """Hold a copy of the contents that an array should have, to find unannounced writes.

    Attributes:
        memory: The memory of the array.
        content: The copy of what the array should contain.
        pending: Boxes that the host announced it would write, and that are not copied yet.
    """

    memory: np.ndarray
    content: np.ndarray
    pending: list[Box] = field(default_factory=list)

    def refresh(self, boxes: Iterable[Box]) -> None:
        """Copy the present contents of some boxes of the array."""
        RUNTIME.settle()
        for box in boxes:
            self.content[box] = self.memory[box]

    def settle(self) -> None:
        """Copy the boxes of announced writes by the host, which have happened by now, into the expected contents."""
        self.refresh(self.pending)
        self.pending.clear()


class ExpectedContents:
    """Hold copies of all exported arrays that one tape or forward mode uses, to detect unannounced writes."""

    def __init__(self) -> None:
        self._known: dict[Array, _ArrayContent] = {}

    def __iter__(self) -> Iterator[Array]:
        return iter(list(self._known))

    def __contains__(self, array: Array) -> bool:
        return array in self._known

    def remember(self, array: Array, boxes: Iterable[Box] | None = None) -> None:
        """Keep a copy of the present contents of an array, which later comparisons expect.

        Args:
            array: The array. It is copied as a whole when it is met for the first time.
            boxes: The boxes to copy, or None for the whole array.
        """
        found = self._known.get(array)
        if found is None:
            self._known[array] = _ArrayContent(array.memory, array.memory.copy())
            return
        found.settle()
        found.refresh([_whole(array)] if boxes is None else boxes)

    def announced(self, array: Array, box: Box) -> None:
        """Record that the host has announced a write to a box of an array."""
        found = self._known.get(array)
        if found is not None:
            found.pending.append(box)

    def changed(self, array: Array, boxes: Iterable[Box] | None = None) -> np.ndarray | None:
        """Return a mask of the elements written without notice, or None; later calls expect the new values.

        Args:
            array: The array.
            boxes: The boxes to look at, or None for the whole array.

        Returns:
            A mask of the shape of the memory of the array, or None if nothing was written without notice.
        """
        found = self._known.get(array)
        if found is None:
            return None
        found.settle()
        mask: np.ndarray | None = None
        for box in [_whole(array)] if boxes is None else boxes:
            differs = _bits(found.memory, box) != _bits(found.content, box)
            if differs.any():
                mask = np.zeros(found.memory.shape, bool) if mask is None else mask
                mask[box] |= differs
        if mask is not None:
            found.content[mask] = found.memory[mask]
        return mask

    def clear(self) -> None:
        """Drop the copies of all arrays, so that no contents are expected."""
        self._known.clear()


def shared_boxes(
    binding: Binding, scalars: Scalars, carries: Callable[[Array], bool] = attrgetter("needs_grad")
) -> Mapping[Array, list[Box]]:
    """Return the boxes of exported arrays that a launch accesses, for arrays that have a derivative.

    Without such an array, the function costs no more than a look at each array.

    Args:
        binding: The launch.
        scalars: The scalar arguments of the launch by name.
        carries: A function that tells whether an array carries a derivative.
    """
    shared = {
        array
        for array in binding.arrays.values()
        if isinstance(array, Array) and array.exported and not array.is_grad and carries(array)
    }
    if not shared:
        return {}
    return {array: boxes for array, boxes in binding.touched_boxes(scalars).items() if array in shared and boxes}


def common_indices(mask: np.ndarray, boxes: Iterable[Box]) -> tuple[np.ndarray, ...] | None:
    """Return the indices of the elements that are in the mask and in one of the boxes, or None if there are none."""
    kept = np.zeros_like(mask)
    for box in boxes:
        kept[box] = mask[box]
    return np.nonzero(kept) if kept.ndim and kept.any() else (() if kept.any() else None)


def _whole(array: Array) -> Box:
    return tuple(slice(0, extent) for extent in array.shape)


def _bits(memory: np.ndarray, box: Box) -> np.ndarray:
    """Return the bits of a box's elements as unsigned integers, so that NaN equals NaN, and -0.0 differs from 0.0."""
    inside: np.ndarray = memory[(*box, ...)]  # type: ignore[arg-type]
    return inside.view(f"u{memory.dtype.itemsize}")
