"""What a chunk of lanes owns beside its values: locals, rows of elements, adstacks; and the bytes of all adstacks.

Locals are copied on write: a vector that a frame may still read is replaced, never changed. Rows are matrices
[element][lane] that are changed in place and read by copy.
"""

from __future__ import annotations

import numpy as np

from ..backends.base import SLABS
from ..compiler.errors import InternalError
from ..compiler.ir.nodes import StackAlloca
from ..compiler.ir.types import Scalar
from .frame import Frame, Vector

_SLAB_OF_KIND = {"f": "real", "i": "integer", "u": "integer", "b": "flag"}


class Local:
    """A mutable scalar of every lane of a chunk."""

    __slots__ = ("_content", "_own", "dtype", "width")

    def __init__(self, dtype: Scalar, width: int) -> None:
        self.dtype = dtype
        self.width = width
        self._content: Vector = dtype.dtype.type(0)
        self._own = False  # whether nobody else holds _content, so that it may be written in place

    def get(self, frame: Frame) -> Vector:
        """The content in the lanes of the frame."""
        if frame.lanes is None:
            self._own = False
            return self._content
        return self._content if self._content.ndim == 0 else self._content[frame.lanes]

    def set(self, frame: Frame, value: Vector) -> None:
        """Overwrite in the lanes of the frame."""
        if frame.lanes is None:
            self._content, self._own = value, False
            return
        if not self._own:
            self._content = np.array(np.broadcast_to(self._content, self.width))
            self._own = True
        self._content[frame.lanes] = value

    def clear(self, frame: Frame) -> None:
        """Zero in the lanes of the frame."""
        self.set(frame, self.dtype.dtype.type(0))


class Rows:
    """Elements [row][lane], addressed by a row number a lane or one for all.

    In a chunk of one lane everything is 0-d.
    """

    __slots__ = ("cells", "width")

    def __init__(self, count: int, width: int, dtype: Scalar) -> None:
        self.cells = np.zeros((count, width), dtype.dtype)
        self.width = width

    def read(self, frame: Frame, row: Vector | int) -> Vector:
        """A copy of the addressed elements."""
        copy: Vector = self.cells[self._place(frame, row)].copy()
        return copy

    def write(self, frame: Frame, row: Vector | int, value: Vector) -> None:
        """Overwrite the addressed elements."""
        self.cells[self._place(frame, row)] = value

    def clear(self, frame: Frame) -> None:
        """Zero every element of the lanes of the frame."""
        self.cells[:, slice(None) if frame.lanes is None else frame.lanes] = 0

    def extend(self, count: int) -> None:
        """Grow to `count` rows; the contents of the new ones are arbitrary."""
        grown = np.empty((count, self.width), self.cells.dtype)
        grown[: len(self.cells)] = self.cells
        self.cells = grown

    def _place(self, frame: Frame, row: Vector | int) -> tuple[Vector | int | slice, ...]:
        if self.width == 1:
            return row, 0
        if frame.lanes is not None:
            return row, frame.lanes
        return (row, slice(None)) if np.ndim(row) == 0 else (row, frame.numbers())


class Heap:
    """Bytes of adstack memory by slab, now and at most, over any number of launches."""

    def __init__(self) -> None:
        self.current = dict.fromkeys(SLABS, 0)
        self.peak = dict.fromkeys(SLABS, 0)

    def change(self, slab: str, size: int) -> None:
        """Account for bytes taken (positive) or given back (negative)."""
        self.current[slab] += size
        self.peak[slab] = max(self.peak[slab], self.current[slab])

    def report(self) -> dict[str, dict[str, int]]:
        """{"real": {"current": bytes, "peak": bytes}, ...}."""
        return {slab: {"current": self.current[slab], "peak": self.peak[slab]} for slab in SLABS}


class Stack:
    """An adstack of every lane of a chunk: memory [slot][lane] that grows up to the capacity.

    capacity None: unknown, the stack grows as it must. `top` is the number of slots in use: one number as long as all
    lanes agree, else a vector over the chunk. `deepest` is the greatest `top` seen.
    """

    def __init__(self, decl: StackAlloca, width: int, capacity: int | None, heap: Heap) -> None:
        self.decl = decl
        self.width = width
        self.capacity = capacity
        self.deepest = 0
        self._heap = heap
        self._slab = _SLAB_OF_KIND[decl.dtype.kind]
        self._top: int | Vector = 0
        self._primal = Rows(0, width, decl.dtype)
        self._adjoint = Rows(0, width, decl.dtype) if decl.adjoint else None

    def top(self, frame: Frame) -> int | Vector:
        """Slots in use in the lanes of the frame."""
        if isinstance(self._top, int) or frame.lanes is None:
            return self._top
        lanes: Vector = self._top[frame.lanes]
        return lanes

    def move(self, frame: Frame, top: int | Vector) -> None:
        """Set the number of slots in use in the lanes of the frame."""
        if frame.lanes is None:
            self._top = top
            return
        if isinstance(self._top, int):
            self._top = np.full(self.width, self._top, np.int64)
        self._top[frame.lanes] = top

    def push(self, frame: Frame, value: Vector) -> None:
        """A new slot with this primal and a zero adjoint. The caller has compared with the capacity."""
        top = self.top(frame)
        deepest = int(np.max(top)) + 1
        self.deepest = max(self.deepest, deepest)
        self._reserve(deepest)
        self._primal.write(frame, top, value)
        if self._adjoint is not None:
            self._adjoint.write(frame, top, self.decl.dtype.dtype.type(0))
        self.move(frame, top + 1)

    def primal(self, frame: Frame) -> Vector:
        """The primal of the top slot; the caller has looked whether there is one."""
        return self._primal.read(frame, self.top(frame) - 1)

    def adjoint(self, frame: Frame) -> Vector:
        """The adjoint of the top slot."""
        return self._adjoints().read(frame, self.top(frame) - 1)

    def set_adjoint(self, frame: Frame, value: Vector) -> None:
        """Overwrite the adjoint of the top slot."""
        self._adjoints().write(frame, self.top(frame) - 1, value)

    def release(self) -> None:
        """Give the memory back."""
        for rows in self._halves():
            self._heap.change(self._slab, -rows.cells.nbytes)
            rows.cells = rows.cells[:0]

    def _adjoints(self) -> Rows:
        if self._adjoint is None:
            raise InternalError(f"adstack {self.decl.stack} is declared without adjoints")
        return self._adjoint

    def _halves(self) -> list[Rows]:
        return [self._primal] if self._adjoint is None else [self._primal, self._adjoint]

    def _reserve(self, slots: int) -> None:
        """Amortised: at least double, but never past the capacity."""
        have = len(self._primal.cells)
        if slots <= have:
            return
        wanted = max(slots, 2 * have, 4)
        wanted = wanted if self.capacity is None else max(min(wanted, self.capacity), slots)
        for rows in self._halves():
            before = rows.cells.nbytes
            rows.extend(wanted)
            self._heap.change(self._slab, rows.cells.nbytes - before)
