"""Writes that nobody announces, to exported arrays: elements that differ from what the last launch left there.

Whoever holds a view of an array writes it without telling. What is written so is constant, as what the host writes in
sight is: adjoints and tangents of what was there before end. So a tape, and forward mode, keep one copy of each
exported array with a derivative that their launches touched, and compare it with memory before anything touches it
again. An array that was never exported costs nothing.

Invariant: outside of a launch and of a write in sight, a copy differs from memory only where something was written
unseen. A write that leaves the same bits cannot be told from none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from .compiler.sizing.regions import Box
from .fields import Array
from .session import RUNTIME

if TYPE_CHECKING:
    from .backends.base import Scalars
    from .program import Binding


@dataclass(eq=False, slots=True)
class _Content:
    """What an array should hold. pending: boxes that the host was about to write in sight."""

    memory: np.ndarray
    content: np.ndarray
    pending: list[Box] = field(default_factory=list)

    def refresh(self, boxes: Iterable[Box]) -> None:
        RUNTIME.settle()
        for box in boxes:
            self.content[box] = self.memory[box]

    def settle(self) -> None:
        self.refresh(self.pending)
        self.pending.clear()


class Contents:
    """The copies that one tape, or one forward mode, keeps."""

    def __init__(self) -> None:
        self._known: dict[Array, _Content] = {}

    def __iter__(self) -> Iterator[Array]:
        return iter(list(self._known))

    def __contains__(self, array: Array) -> bool:
        return array in self._known

    def remember(self, array: Array, boxes: Iterable[Box] | None = None) -> None:
        """These boxes, or all, are what they should be. The whole array is copied when it is met first."""
        found = self._known.get(array)
        if found is None:
            self._known[array] = _Content(array.memory, array.memory.copy())
            return
        found.settle()
        found.refresh([_whole(array)] if boxes is None else boxes)

    def announced(self, array: Array, box: Box) -> None:
        """The host is about to write a box in sight."""
        found = self._known.get(array)
        if found is not None:
            found.pending.append(box)

    def changed(self, array: Array, boxes: Iterable[Box] | None = None) -> np.ndarray | None:
        """A mask of the elements of these boxes, or of all, that were written unseen; None if there are none.

        They are what they should be from now on.
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
        """Forget all."""
        self._known.clear()


def shared_boxes(
    binding: Binding, scalars: Scalars, carries: Callable[[Array], bool] = attrgetter("needs_grad")
) -> Mapping[Array, list[Box]]:
    """What a launch touches of exported arrays that carry a derivative; without any, it costs a look at each array."""
    shared = {
        array
        for array in binding.arrays.values()
        if isinstance(array, Array) and array.exported and not array.is_grad and carries(array)
    }
    if not shared:
        return {}
    return {array: boxes for array, boxes in binding.touched_boxes(scalars).items() if array in shared and boxes}


def within(mask: np.ndarray, boxes: Iterable[Box]) -> tuple[np.ndarray, ...] | None:
    """The indices of what a mask and some boxes have in common; None if that is nothing."""
    kept = np.zeros_like(mask)
    for box in boxes:
        kept[box] = mask[box]
    return np.nonzero(kept) if kept.ndim and kept.any() else (() if kept.any() else None)


def _whole(array: Array) -> Box:
    return tuple(slice(0, extent) for extent in array.shape)


def _bits(memory: np.ndarray, box: Box) -> np.ndarray:
    """The bits of each element of a box: NaNs equal themselves, -0.0 is not 0.0."""
    inside: np.ndarray = memory[(*box, ...)]  # type: ignore[arg-type]
    return inside.view(f"u{memory.dtype.itemsize}")
