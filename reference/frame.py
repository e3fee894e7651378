"""Lanes: which iterations of a chunk execute a statement, and the values they hold.

A frame is a set of lanes, in ascending order, with one dense vector a value: what a frame computes it computes for
its own lanes alone, so lanes that are not in it cannot touch memory, trap or warn. Divergence makes smaller frames;
values of an outer frame are gathered on first use. A value that is the same in all lanes may stay 0-d (*uniform*).
Vectors are never written in place once they are in a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler.errors import InternalError
from ..compiler.ir.nodes import Value

Vector = npt.NDArray[Any]
"""One element a lane of some frame, or 0-d: the same in all lanes."""


class Frame:
    """lanes: ascending numbers in the chunk, None for the whole chunk. picks: their positions in the parent."""

    __slots__ = ("count", "lanes", "parent", "picks", "values")

    def __init__(
        self, count: int, lanes: Vector | None = None, parent: Frame | None = None, picks: Vector | None = None
    ) -> None:
        self.count = count
        self.lanes = lanes
        self.parent = parent
        self.picks = picks
        self.values: dict[int, Vector] = {}

    def value(self, value: Value) -> Vector:
        """The content of a value in the lanes of this frame; InternalError if nothing defined it."""
        found = self.values.get(value.id)
        if found is None:
            if self.parent is None:
                raise InternalError(f"{value!r} is read where no statement has defined it")
            found = self.gather(self.parent.value(value))
            self.values[value.id] = found
        return found

    def gather(self, vector: Vector) -> Vector:
        """A vector over the parent's lanes, in the lanes of this frame."""
        return vector if self.picks is None or vector.ndim == 0 else vector[self.picks]

    def numbers(self) -> Vector:
        """The lane numbers as a vector."""
        return np.arange(self.count, dtype=np.int64) if self.lanes is None else self.lanes

    def narrow(self, picks: Vector) -> Frame:
        """The frame of the lanes at these ascending positions."""
        return Frame(picks.size, picks if self.lanes is None else self.lanes[picks], self, picks)

    def keep(self, lanes: Vector) -> Frame | None:
        """The frame of these lanes, ascending, all of them lanes of this one; itself for all, None for none."""
        if lanes.size == self.count:
            return self
        if lanes.size == 0:
            return None
        picks = lanes if self.lanes is None else np.searchsorted(self.lanes, lanes)
        return Frame(lanes.size, lanes, self, picks)

    def spread(self, vector: Vector) -> Vector:
        """A uniform value repeated for every lane."""
        return np.broadcast_to(vector, self.count) if vector.ndim == 0 else vector


def merge(parts: Sequence[Vector]) -> Vector:
    """Disjoint ascending lane numbers united, ascending."""
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate(parts), kind="stable") if parts else np.empty(0, np.int64)


def number(content: int) -> Vector:
    """A uniform i64."""
    made: Vector = np.asarray(content, np.int64)[()]
    return made
