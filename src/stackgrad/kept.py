"""Content that is kept while something overwrites it, as boxes of arrays; swapped back in, or copied out.

Invariant: a kept content has the shape of its box, and no one else writes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .compiler.sizing.regions import Box
from .session import RUNTIME


@dataclass(eq=False, slots=True)
class Kept:
    """The content that a box of an array had; None for the whole array."""

    array: np.ndarray
    box: Box | None
    content: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray, box: Box | None) -> Kept:
        """The present content."""
        RUNTIME.settle()
        return cls(array, box, (array if box is None else array[box]).copy())

    def holds(self, box: Box) -> bool:
        """Whether these elements are among those kept."""
        return self.box is None or covers(self.box, box)

    def restored(self) -> np.ndarray:
        """The array with this content in the box, and with its present content elsewhere."""
        if self.box is None:
            return self.content.copy()
        RUNTIME.settle()
        made = self.array.copy()
        made[self.box] = self.content
        return made

    def swap(self) -> None:
        """Exchange it with the present content; its own inverse."""
        RUNTIME.settle()
        place = self.array[...] if self.box is None else self.array[self.box]
        present = place.copy()
        place[...] = self.content
        self.content = present


@dataclass(eq=False, slots=True)
class Before:
    """What an array contained, as far as a launch may overwrite it, and its tangents in forward mode."""

    primal: Kept
    tangents: list[Kept]


def covers(outer: Box, inner: Box) -> bool:
    """Whether every element of `inner` is in `outer`."""
    return all(a.start <= b.start and b.stop <= a.stop for a, b in zip(outer, inner))
