"""Track which elements of a field recorded gradients will read, to find what a write is about to destroy.

A program that simulates many steps reads and writes one row of a field in each of them, so that thousands of boxes are
tracked and a write meets few of them. Boxes are therefore kept in cells along one axis, by their place and size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..compiler.sizing.regions import Box, intersect_boxes
from ..launch.saved_boxes import box_covers

if TYPE_CHECKING:
    from .tape_state import LaunchRecord

BoxKey = tuple[tuple[int, int], ...]
Cell = dict[BoxKey, tuple[int, Box, "LaunchRecord"]]


class WatchedBoxes:
    """Track the boxes of one field that recorded gradients will read and that no saved contents cover yet.

    Invariant: a box lies in the cell of its first index along its axis, where cells of a level have `2 ** level`
    indices and no box of a level is longer; so a box reaches into the cell behind its own and no further.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        """Track no box yet.

        Args:
            shape: The shape of the field.
        """
        self._shape = shape
        self._levels: dict[tuple[int, int], dict[int, Cell]] = {}
        self._count = 0

    def add(self, boxes: list[Box], record: LaunchRecord) -> None:
        """Record the boxes that the gradient of a newly recorded launch reads."""
        for box in boxes:
            level, place = self._place(box)
            cell = self._levels.setdefault(level, {}).setdefault(place, {})
            key = tuple((s.start, s.stop) for s in box)
            if key not in cell:
                self._count += 1
                cell[key] = self._count, box, record

    def endangered(self, writes: list[Box]) -> tuple[list[Box], LaunchRecord | None]:
        """Return the parts of the tracked boxes that writes would destroy, and the first record that reads one.

        A tracked box that is written as a whole is tracked no more, because the contents that its readers need are
        saved now.
        """
        lost: list[Box] = []
        readers: dict[int, LaunchRecord] = {}
        for write in writes:
            for cell in self._cells(write):
                for key, (number, box, record) in tuple(cell.items()):
                    common = intersect_boxes(box, write)
                    if common is None:
                        continue
                    lost.append(common)
                    readers[number] = record
                    # A box that an earlier write of the launch covered was lost with that write.
                    if box_covers(write, box):
                        del cell[key]
        return lost, readers[min(readers)] if readers else None

    def _place(self, box: Box) -> tuple[tuple[int, int], int]:
        """Return the axis and level of a box, and its cell; the axis is that of which the box covers the least part."""
        if not box:
            return (0, 0), 0
        axis = min(range(len(box)), key=lambda axis: (box[axis].stop - box[axis].start) / self._shape[axis])
        level = (box[axis].stop - box[axis].start - 1).bit_length()
        return (axis, level), box[axis].start >> level

    def _cells(self, write: Box) -> Iterator[Cell]:
        """Yield the cells of which a box may meet a write."""
        for (axis, level), cells in self._levels.items():
            if not write:
                yield from cells.values()
                continue
            first, last = (write[axis].start >> level) - 1, (write[axis].stop - 1) >> level
            if last - first < len(cells):
                yield from (cells[place] for place in range(first, last + 1) if place in cells)
            else:
                yield from (cell for place, cell in cells.items() if first <= place <= last)
