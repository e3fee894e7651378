"""Which elements of which arrays a launch may read or write, as boxes, from its arguments and shapes alone.

A time-indexed program (step t reads x[t], writes x[t + 1]) is seen to touch different elements in different launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Kernel, Value
from ..ir.walk import walk_task
from .intervals import Intervals, Number, is_empty

Box = tuple[slice, ...]
"""A box of elements, one slice per axis; () is the single element of a 0-d array."""


@dataclass(frozen=True)
class Access:
    """One statement that touches an array."""

    task: int
    array: str
    indices: tuple[Value, ...]


class Regions:
    """Boxes of the reads and of the writes of a kernel, remembered by arguments and shapes."""

    LIMIT = 4096

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reads = self._accesses((n.Load,))
        self.writes = self._accesses((n.Store, n.Atomic))
        self._found: dict[object, dict[str, list[Box]]] = {}

    def _accesses(self, kinds: tuple[type, ...]) -> list[Access]:
        return [
            Access(t, s.array, s.indices)  # type: ignore[attr-defined]
            for t, task in enumerate(self.kernel.tasks)
            for s in walk_task(task)
            if isinstance(s, kinds)
        ]

    def read_boxes(self, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[Box]]:
        """By array, the boxes that the launch may load from."""
        return self._boxes("read", self.reads, scalars, shapes)

    def write_boxes(self, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[Box]]:
        """By array, the boxes that the launch may store to or update."""
        return self._boxes("write", self.writes, scalars, shapes)

    def _boxes(
        self, kind: str, accesses: list[Access], scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, list[Box]]:
        key = (kind, tuple(scalars.items()), tuple(shapes.items()))
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self.LIMIT:
                self._found.clear()
            found = self._found[key] = self._evaluate(accesses, scalars, shapes)
        return found

    def _evaluate(
        self, accesses: list[Access], scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, list[Box]]:
        intervals = [Intervals(task, scalars, shapes) for task in self.kernel.tasks]
        found: dict[str, list[Box]] = {}
        for access in accesses:
            if access.array not in shapes:
                continue
            box = _box(intervals[access.task], access.indices, shapes[access.array])
            boxes = found.setdefault(access.array, [])
            if box is not None and box not in boxes:
                boxes.append(box)
        return found


def _box(intervals: Intervals, indices: tuple[Value, ...], shape: tuple[int, ...]) -> Box | None:
    """The box of one access, cut to the array; None if it is empty."""
    box = []
    for index, extent in zip(indices, shape):
        low, high = intervals.of(index)
        if is_empty((low, high)):
            return None
        first, last = int(max(low, 0)), int(min(high, extent - 1))
        if first > last:
            return None
        box.append(slice(first, last + 1))
    return tuple(box)


def meet(a: Box, b: Box) -> Box | None:
    """The box of elements in both; None if there are none."""
    common = tuple(slice(max(x.start, y.start), min(x.stop, y.stop)) for x, y in zip(a, b))
    return None if any(s.start >= s.stop for s in common) else common


def hull(boxes: list[Box]) -> Box:
    """The smallest box that holds all of them."""
    return tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes))
