"""Track which elements of a field recorded gradients will read, to find what a write is about to destroy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiler.sizing.regions import Box, hull, intersect_boxes
from ..launch.saved_boxes import box_covers

if TYPE_CHECKING:
    from .tape_state import LaunchRecord


class WatchedBoxes:
    """Track the boxes of one field that recorded gradients will read and that no saved contents cover yet."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[tuple[int, int], ...], tuple[Box, LaunchRecord]] = {}
        self.around: Box | None = None

    def add(self, boxes: list[Box], record: LaunchRecord) -> None:
        """Record the boxes that the gradient of a newly recorded launch reads."""
        for box in boxes:
            self.boxes.setdefault(tuple((s.start, s.stop) for s in box), (box, record))
            self.around = hull([self.around, box]) if self.around is not None else box

    def endangered(self, writes: list[Box]) -> tuple[list[Box], LaunchRecord | None]:
        """Return the parts of the tracked boxes that writes would destroy, and a record whose gradient reads one.

        A tracked box that is written as a whole is tracked no more, because the contents that its readers need are
        saved now.
        """
        if self.around is None or all(intersect_boxes(self.around, w) is None for w in writes):
            return [], None
        lost: list[Box] = []
        reader: LaunchRecord | None = None
        for key, (box, record) in list(self.boxes.items()):
            common = [m for w in writes if (m := intersect_boxes(box, w)) is not None]
            lost += common
            reader = reader or (record if common else None)
            if any(box_covers(w, box) for w in writes):
                del self.boxes[key]
        if lost:
            self.around = hull([box for box, _ in self.boxes.values()]) if self.boxes else None
        return lost, reader
