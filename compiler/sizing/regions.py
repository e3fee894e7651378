"""This module finds boxes of array elements that a launch may read or write, from arguments and shapes alone.

A program that steps through time (step t reads x[t] and writes x[t + 1]) is seen to touch different elements in
different launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..analysis.intervals import Interval, Number, is_empty, meet
from ..analysis.launch_ranges import LaunchRanges
from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.roles import ARRAY_WRITES
from ..ir.statement import Value
from ..ir.walk import walk_task

Box = tuple[slice, ...]
"""A box of elements, with one slice for each axis; () is the single element of an array without axes."""


@dataclass(frozen=True)
class ArrayAccess:
    """An `ArrayAccess` describes one statement that reads or writes an array element.

    Attributes:
        task: Number of the task.
        array: Name of the array.
        indices: The values of the indices, one for each axis.
    """

    task: int
    array: str
    indices: tuple[Value, ...]


class AccessRegions:
    """This class finds and caches the boxes of array elements that a kernel reads and writes."""

    LIMIT = 4096
    """Number of results after which all are forgotten."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reads = self._accesses((n.Load,))
        self.writes = self._accesses(ARRAY_WRITES)
        self._found: dict[object, dict[str, list[Box]]] = {}

    def _accesses(self, kinds: tuple[type, ...]) -> list[ArrayAccess]:
        """Return the accesses to arrays by statements of these classes."""
        return [
            ArrayAccess(t, s.array, s.indices)  # type: ignore[attr-defined]
            for t, task in enumerate(self.kernel.tasks)
            for s in walk_task(task)
            if isinstance(s, kinds)
        ]

    def read_boxes(self, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[Box]]:
        """Return for each array the boxes that the launch may load from.

        Args:
            scalars: Arguments by name.
            shapes: Extents by name of the array.
        """
        return self._boxes("read", self.reads, scalars, shapes)

    def write_boxes(self, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[Box]]:
        """Return for each array the boxes that the launch may store to or update.

        Args:
            scalars: Arguments by name.
            shapes: Extents by name of the array.
        """
        return self._boxes("write", self.writes, scalars, shapes)

    def _boxes(
        self,
        kind: str,
        accesses: list[ArrayAccess],
        scalars: Mapping[str, Number],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> dict[str, list[Box]]:
        """Return the boxes that these accesses may touch, from the cache or evaluated anew."""
        key = (kind, tuple(scalars.items()), tuple(shapes.items()))
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self.LIMIT:
                self._found.clear()
            found = self._found[key] = self._evaluate(accesses, scalars, shapes)
        return found

    def _evaluate(
        self, accesses: list[ArrayAccess], scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, list[Box]]:
        """Return the boxes that these accesses may touch, evaluated for the given arguments and shapes."""
        ranges = [LaunchRanges(task, scalars, shapes) for task in self.kernel.tasks]
        found: dict[str, list[Box]] = {}
        for access in accesses:
            if access.array not in shapes:
                continue
            box = _box(ranges[access.task], access.indices, shapes[access.array])
            boxes = found.setdefault(access.array, [])
            if box is not None:
                boxes.append(box)
        return {array: joined(boxes) for array, boxes in found.items()}


def _box(ranges: LaunchRanges, indices: tuple[Value, ...], shape: tuple[int, ...]) -> Box | None:
    """Return the box of the elements that one access may touch inside of its array; None if the box is empty."""
    box = []
    for index, extent in zip(indices, shape):
        inside = meet(ranges.of(index), Interval(0, extent - 1))
        if is_empty(inside):
            return None
        first, last = int(inside.low), int(inside.high)
        box.append(slice(first, last + 1))
    return tuple(box)


def joined(boxes: list[Box]) -> list[Box]:
    """Return boxes with the same elements, where boxes that differ along one axis and leave no gap there are one.

    The unrolled loop `for j in sg.static(range(64))` with `x[t, j]` has 64 accesses and one box.
    """
    spans = list(dict.fromkeys(tuple((s.start, s.stop) for s in box) for box in boxes))
    for axis in reversed(range(len(boxes[0]) if boxes else 0)):
        rows: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = {}
        for span in spans:
            rows.setdefault((*span[:axis], *span[axis + 1 :]), []).append(span[axis])
        spans = [(*rest[:axis], span, *rest[axis:]) for rest, row in rows.items() for span in _joined_spans(row)]
    return [tuple(slice(*span) for span in box) for box in spans]


def _joined_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans with the same indices, sorted, where spans that leave no gap are one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def intersect_boxes(a: Box, b: Box) -> Box | None:
    """Return the box of the elements that lie in both boxes; None if there are none."""
    common = tuple(slice(max(x.start, y.start), min(x.stop, y.stop)) for x, y in zip(a, b))
    return None if any(s.start >= s.stop for s in common) else common


def hull(boxes: list[Box]) -> Box:
    """Return the smallest box that holds all boxes."""
    return tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes))
