"""Represent a set of lanes (iterations) that execute a statement together, and the values they have computed.

A frame is a set of lanes, in ascending order, with one dense vector per value. A frame computes for its own lanes
alone, so lanes outside it cannot touch memory, trap or warn. Divergence makes smaller frames; values of an outer frame
are gathered on first use. A value that is the same in all lanes may stay 0-d (*uniform*). Vectors are never written in
place once they are in a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiler.errors import InternalError
from ..compiler.ir.statement import Value

LaneVector = npt.NDArray[Any]
"""The type of values: one element per lane of some frame, or 0-d, which is the same in all lanes."""


class LaneFrame:
    """Represent a set of lanes that execute the same statements, with one vector of values for each IR value.

    Attributes:
        count: number of lanes
        lanes: ascending numbers of the lanes in the chunk; None for the whole chunk
        parent: frame from which this frame was narrowed, or None
        picks: positions of the lanes in the parent
        values: by the id of an IR value, a vector of its value in each lane
    """

    __slots__ = ("count", "lanes", "parent", "picks", "values")

    def __init__(
        self,
        count: int,
        lanes: LaneVector | None = None,
        parent: LaneFrame | None = None,
        picks: LaneVector | None = None,
    ) -> None:
        self.count = count
        self.lanes = lanes
        self.parent = parent
        self.picks = picks
        self.values: dict[int, LaneVector] = {}

    def value(self, value: Value) -> LaneVector:
        """Return the values of an IR value in the lanes of this frame. Raise InternalError if it is not defined."""
        found = self.values.get(value.id)
        if found is None:
            if self.parent is None:
                raise InternalError(f"{value!r} is read where no statement has defined it")
            found = self.gather(self.parent.value(value))
            self.values[value.id] = found
        return found

    def gather(self, vector: LaneVector) -> LaneVector:
        """Return the entries of a vector over the parent frame's lanes that belong to the lanes of this frame."""
        return vector if self.picks is None or vector.ndim == 0 else vector[self.picks]

    def numbers(self) -> LaneVector:
        """Return the numbers of this frame's lanes within the chunk as a vector."""
        return np.arange(self.count, dtype=np.int64) if self.lanes is None else self.lanes

    def narrow(self, picks: LaneVector) -> LaneFrame:
        """Return a frame of a subset of the lanes, given by their ascending positions in this frame."""
        return LaneFrame(picks.size, picks if self.lanes is None else self.lanes[picks], self, picks)

    def keep(self, lanes: LaneVector) -> LaneFrame | None:
        """Return a frame of a subset of the lanes, given by their ascending numbers in the chunk.

        All lanes give the frame itself, no lanes give None.
        """
        if lanes.size == self.count:
            return self
        if lanes.size == 0:
            return None
        picks = lanes if self.lanes is None else np.searchsorted(self.lanes, lanes)
        return LaneFrame(lanes.size, lanes, self, picks)

    def spread(self, vector: LaneVector) -> LaneVector:
        """Return a vector with one entry for each lane; a 0-d array, whose value all lanes share, is repeated."""
        return np.broadcast_to(vector, self.count) if vector.ndim == 0 else vector


def merge(parts: Sequence[LaneVector]) -> LaneVector:
    """Return the sorted union of disjoint, sorted vectors of lane numbers."""
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate(parts), kind="stable") if parts else np.empty(0, np.int64)


def number(content: int) -> LaneVector:
    """Return an integer as a 0-d i64 array, which represents the same value in all lanes."""
    made: LaneVector = np.asarray(content, np.int64)[()]
    return made
