"""Store the locals, local arrays and adstacks of a chunk of lanes, and count the bytes of adstacks.

Locals are copied on write: a vector that a frame may still read is replaced, never changed. Rows are matrices
[element][lane] that are changed in place and read by copy.
"""

from __future__ import annotations

import numpy as np

from ..backends.base import SLABS
from ..compiler.errors import InternalError
from ..compiler.ir.nodes import StackAlloca
from ..compiler.ir.types import Scalar
from .frame import LaneFrame, LaneVector

_SLAB_OF_KIND = {"f": "real", "i": "integer", "u": "integer", "b": "flag"}


class ChunkLocal:
    """Represent a local variable of the kernel, with one value for each lane of a chunk."""

    __slots__ = ("_content", "_own", "dtype", "width")

    def __init__(self, dtype: Scalar, width: int) -> None:
        self.dtype = dtype
        self.width = width
        self._content: LaneVector = dtype.dtype.type(0)
        # If this is true, nobody else holds _content, so it may be written in place.
        self._own = False

    def get(self, frame: LaneFrame) -> LaneVector:
        """Return the local's values in the lanes of the frame."""
        if frame.lanes is None:
            self._own = False
            return self._content
        return self._content if self._content.ndim == 0 else self._content[frame.lanes]

    def set(self, frame: LaneFrame, value: LaneVector) -> None:
        """Overwrite the local's values in the lanes of the frame."""
        if frame.lanes is None:
            self._content, self._own = value, False
            return
        if not self._own:
            self._content = np.array(np.broadcast_to(self._content, self.width))
            self._own = True
        self._content[frame.lanes] = value

    def clear(self, frame: LaneFrame) -> None:
        """Set the local to zero in the lanes of the frame."""
        self.set(frame, self.dtype.dtype.type(0))


class Rows:
    """Represent a matrix of cells [row][lane], in which each lane reads and writes the row that it chooses.

    Local arrays and adstacks are such matrices: a row holds one element or slot. In a chunk of one lane, all vectors
    that are read and written are 0-d.
    """

    __slots__ = ("cells", "width")

    def __init__(self, count: int, width: int, dtype: Scalar) -> None:
        self.cells = np.zeros((count, width), dtype.dtype)
        self.width = width

    def read(self, frame: LaneFrame, row: LaneVector | int) -> LaneVector:
        """Return a copy of each lane's cell in the given row."""
        copy: LaneVector = self.cells[self._place(frame, row)].copy()
        return copy

    def write(self, frame: LaneFrame, row: LaneVector | int, value: LaneVector) -> None:
        """Overwrite each lane's cell in the given row."""
        self.cells[self._place(frame, row)] = value

    def clear(self, frame: LaneFrame) -> None:
        """Set all cells of the lanes of the frame to zero."""
        self.cells[:, slice(None) if frame.lanes is None else frame.lanes] = 0

    def extend(self, count: int) -> None:
        """Enlarge the matrix to `count` rows; the contents of new rows are arbitrary."""
        grown = np.empty((count, self.width), self.cells.dtype)
        grown[: len(self.cells)] = self.cells
        self.cells = grown

    def _place(self, frame: LaneFrame, row: LaneVector | int) -> tuple[LaneVector | int | slice, ...]:
        """Return the NumPy index of each lane's cell in the given row."""
        if self.width == 1:
            return row, 0
        if frame.lanes is not None:
            return row, frame.lanes
        return (row, slice(None)) if np.ndim(row) == 0 else (row, frame.numbers())


class HeapCounter:
    """Count the current and the peak bytes of adstack memory in each slab, over any number of launches."""

    def __init__(self) -> None:
        self.current = dict.fromkeys(SLABS, 0)
        self.peak = dict.fromkeys(SLABS, 0)

    def change(self, slab: str, size: int) -> None:
        """Add `size` bytes to the count of a slab; `size` is negative if memory is freed."""
        self.current[slab] += size
        self.peak[slab] = max(self.peak[slab], self.current[slab])

    def report(self) -> dict[str, dict[str, int]]:
        """Return the bytes by slab: {"real": {"current": bytes, "peak": bytes}, ...}."""
        return {slab: {"current": self.current[slab], "peak": self.peak[slab]} for slab in SLABS}


class ChunkStack:
    """Represent one adstack in all lanes of a chunk; its memory [slot][lane] grows up to the given capacity.

    The number of slots in use (`top`) is one number as long as all lanes agree, else a vector over the chunk.

    Attributes:
        decl: statement that declares the adstack
        width: number of lanes of the chunk
        capacity: greatest number of slots; None if unknown, then the adstack grows without limit
        deepest: greatest number of slots that were in use
    """

    def __init__(self, decl: StackAlloca, width: int, capacity: int | None, heap: HeapCounter) -> None:
        self.decl = decl
        self.width = width
        self.capacity = capacity
        self.deepest = 0
        self._heap = heap
        self._slab = _SLAB_OF_KIND[decl.dtype.kind]
        self._top: int | LaneVector = 0
        self._primal = Rows(0, width, decl.dtype)
        self._adjoint = Rows(0, width, decl.dtype) if decl.adjoint else None

    def top(self, frame: LaneFrame) -> int | LaneVector:
        """Return the number of slots in use in the lanes of the frame."""
        if isinstance(self._top, int) or frame.lanes is None:
            return self._top
        lanes: LaneVector = self._top[frame.lanes]
        return lanes

    def move(self, frame: LaneFrame, top: int | LaneVector) -> None:
        """Set the number of slots in use in the lanes of the frame."""
        if frame.lanes is None:
            self._top = top
            return
        if isinstance(self._top, int):
            self._top = np.full(self.width, self._top, np.int64)
        self._top[frame.lanes] = top

    def push(self, frame: LaneFrame, value: LaneVector) -> None:
        """Add a slot with this primal and a zero adjoint; the caller has checked the capacity."""
        top = self.top(frame)
        deepest = int(np.max(top)) + 1
        self.deepest = max(self.deepest, deepest)
        self._reserve(deepest)
        self._primal.write(frame, top, value)
        if self._adjoint is not None:
            self._adjoint.write(frame, top, self.decl.dtype.dtype.type(0))
        self.move(frame, top + 1)

    def primal(self, frame: LaneFrame) -> LaneVector:
        """Return the primal of the top slot; the caller has checked that the stack is not empty."""
        return self._primal.read(frame, self.top(frame) - 1)

    def adjoint(self, frame: LaneFrame) -> LaneVector:
        """Return the adjoint of the top slot."""
        return self._adjoints().read(frame, self.top(frame) - 1)

    def set_adjoint(self, frame: LaneFrame, value: LaneVector) -> None:
        """Overwrite the adjoint of the top slot."""
        self._adjoints().write(frame, self.top(frame) - 1, value)

    def release(self) -> None:
        """Free the memory of the adstack for all lanes of the chunk."""
        for rows in self._halves():
            self._heap.change(self._slab, -rows.cells.nbytes)
            rows.cells = rows.cells[:0]

    def _adjoints(self) -> Rows:
        """Return the memory of the adjoints, or raise InternalError if this adstack stores none."""
        if self._adjoint is None:
            raise InternalError(f"adstack {self.decl.stack} is declared without adjoints")
        return self._adjoint

    def _halves(self) -> list[Rows]:
        """Return the memory matrix of the primals and, if this adstack stores adjoints, that of the adjoints."""
        return [self._primal] if self._adjoint is None else [self._primal, self._adjoint]

    def _reserve(self, slots: int) -> None:
        """Enlarge the memory of the adstack so that it has at least `slots` slots."""
        have = len(self._primal.cells)
        if slots <= have:
            return
        # Doubling makes the cost of a push constant on average; the capacity is never exceeded.
        wanted = max(slots, 2 * have, 4)
        wanted = wanted if self.capacity is None else max(min(wanted, self.capacity), slots)
        for rows in self._halves():
            before = rows.cells.nbytes
            rows.extend(wanted)
            self._heap.change(self._slab, rows.cells.nbytes - before)
