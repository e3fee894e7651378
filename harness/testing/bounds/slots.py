"""This module stores the error bounds of the slots of an adstack; the adstack itself stores the heights."""

from __future__ import annotations

import numpy as np

from ....compiler.ir.types import f64
from ....reference.frame import LaneFrame, LaneVector
from ....reference.storage import ChunkStack, Rows
from .rules import ZERO


class Slots:
    """A `Slots` holds the error bound of the primal and of the adjoint in each slot of one adstack, for each lane.

    Each half is absent as long as all its errors are zero.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._primal: Rows | None = None
        self._adjoint: Rows | None = None

    def push(self, frame: LaneFrame, stack: ChunkStack, e: LaneVector) -> None:
        """Record, after a push, the error bound of the new top slot, whose adjoint is an exact zero."""
        if self._primal is not None or e is not ZERO:
            self._primal = self._write(self._primal, frame, stack, e)
        if self._adjoint is not None:
            self._adjoint = self._write(self._adjoint, frame, stack, ZERO)

    def primal(self, frame: LaneFrame, stack: ChunkStack) -> LaneVector:
        """Return the error bound of the primal of the top slot."""
        return self._read(self._primal, frame, stack)

    def adjoint(self, frame: LaneFrame, stack: ChunkStack) -> LaneVector:
        """Return the error of the adjoint of the top slot."""
        return self._read(self._adjoint, frame, stack)

    def set_adjoint(self, frame: LaneFrame, stack: ChunkStack, e: LaneVector) -> None:
        """Overwrite the error of the adjoint of the top slot."""
        if self._adjoint is not None or e is not ZERO:
            self._adjoint = self._write(self._adjoint, frame, stack, e)

    def _read(self, half: Rows | None, frame: LaneFrame, stack: ChunkStack) -> LaneVector:
        if half is None or int(np.max(stack.top(frame))) > len(half.cells):
            return ZERO if half is None else self._grown(half, frame, stack).read(frame, stack.top(frame) - 1)
        return half.read(frame, stack.top(frame) - 1)

    def _write(self, half: Rows | None, frame: LaneFrame, stack: ChunkStack, e: LaneVector) -> Rows:
        rows = self._grown(half or Rows(0, self.width, f64), frame, stack)
        rows.write(frame, stack.top(frame) - 1, e)
        return rows

    def _grown(self, rows: Rows, frame: LaneFrame, stack: ChunkStack) -> Rows:
        """Return the error bounds, extended with zeros to all slots of the adstack.

        New slots are exact zeros, since values that were pushed while the half was absent had no error.
        """
        have, want = len(rows.cells), int(np.max(stack.top(frame)))
        if want > have:
            # Doubling keeps the number of copies small.
            rows.extend(max(want, 2 * have, 4))
            rows.cells[have:] = 0.0
        return rows
