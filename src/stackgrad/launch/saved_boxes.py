"""Copy the contents of boxes of arrays, to restore them later or to exchange them with the contents at that time.

Invariant: saved contents have the shape of their box, and no other code writes to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiler.sizing.regions import Box
from ..runtime.session import RUNTIME


@dataclass(eq=False, slots=True)
class SavedBox:
    """Hold a copy of a box of an array's elements, to restore or exchange it later.

    Attributes:
        array: The array.
        box: The box, or None for the whole array.
        content: The saved contents, of the shape of the box.
    """

    array: np.ndarray
    box: Box | None
    content: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray, box: Box | None) -> SavedBox:
        """Save the present contents of a box of an array; None for the whole array."""
        RUNTIME.settle()
        return cls(array, box, (array if box is None else array[box]).copy())

    def holds(self, box: Box) -> bool:
        """Return True if all elements of a box are saved."""
        return self.box is None or box_covers(self.box, box)

    def restored(self) -> np.ndarray:
        """Return a copy of the array with the saved contents in the box and the present contents elsewhere."""
        if self.box is None:
            return self.content.copy()
        RUNTIME.settle()
        made = self.array.copy()
        made[self.box] = self.content
        return made

    def swap(self) -> None:
        """Exchange the saved contents with the present contents; a second call undoes the first."""
        RUNTIME.settle()
        place = self.array[...] if self.box is None else self.array[self.box]
        present = place.copy()
        place[...] = self.content
        self.content = present


@dataclass(eq=False, slots=True)
class BeforeContent:
    """Hold copies of the parts of an array and its tangents that a launch may overwrite, made before the launch.

    Attributes:
        primal: The saved contents of the array.
        tangents: In forward mode, the saved contents of each of its tangents.
    """

    primal: SavedBox
    tangents: list[SavedBox]


def box_covers(outer: Box, inner: Box) -> bool:
    """Return True if every element of the box `inner` is in the box `outer`."""
    return all(a.start <= b.start and b.stop <= a.stop for a, b in zip(outer, inner))
