"""Execute statements on blocks: shared arrays, barriers and collectives, for all blocks of a chunk at once.

Lanes run in lockstep, so a barrier has nothing to wait for; it only finds iterations of a block that do not reach it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiler.ir import nodes as n
from ..compiler.ir.collectives import COLLECTIVES, SUBGROUP, SYNCS, CollectiveInfo, start_of
from ..compiler.ir.statement import Stmt
from ..compiler.ir.types import Scalar
from . import atomics
from .frame import LaneFrame, LaneVector, number
from .machine import RUN, Machine
from .places import check_element
from .scalar import NUMPY
from .storage import Rows
from .traps import PartedBlock


class SharedRows(Rows):
    """Represent a shared array: a matrix of cells [element][block], in which lanes of one block share a column.

    Attributes:
        size: number of iterations of a block
        is_single: True in a chunk of one lane, whose values are 0-d
    """

    __slots__ = ("is_single", "size")

    def __init__(self, count: int, lanes: int, dtype: Scalar, size: int) -> None:
        super().__init__(count, -(-lanes // size), dtype)
        self.size, self.is_single = size, lanes == 1

    def _place(self, frame: LaneFrame, row: LaneVector | int) -> tuple[LaneVector | int | slice, ...]:
        return (row, 0) if self.is_single else (row, frame.numbers() // self.size)

    def write(self, frame: LaneFrame, row: LaneVector | int, value: LaneVector) -> None:
        """Overwrite each lane's cell in the given row; of several lanes that write to one cell the last wins."""
        self.cells[self._place(frame, row)] = value if self.is_single else frame.spread(value)

    def update(self, op: str, frame: LaneFrame, row: LaneVector, value: LaneVector) -> LaneVector:
        """Apply an atomic operation to one cell per lane, and return the previous values."""
        place = frame.spread(np.asarray(row)) * self.width + frame.numbers() // self.size
        return atomics.fetch_and_update(op, self.cells.reshape(-1), place, frame.spread(value))


@dataclass(frozen=True)
class BlockLanes:
    """Represent where the lanes of a frame stand in their blocks.

    Attributes:
        block: number of the block in the chunk, by lane
        thread: number of the iteration in its block, by lane
        live: number of iterations of its block, by lane
    """

    block: LaneVector
    thread: LaneVector
    live: LaneVector


def _lanes(m: Machine, f: LaneFrame) -> BlockLanes:
    size = _size(m)
    block, thread = np.divmod(f.numbers(), np.int64(size))
    return BlockLanes(block, thread, np.minimum(m.chunk.width - block * size, size))


def _size(m: Machine) -> int:
    return m.program.kernel.tasks[m.chunk.task].block


def _meet(m: Machine, s: Stmt, f: LaneFrame) -> BlockLanes:
    """Return where the lanes stand. Raise PartedBlock if a block reaches the statement with a part of its lanes."""
    lanes = _lanes(m, f)
    present = np.bincount(lanes.block)[lanes.block]
    m.check(
        PartedBlock,
        s,
        f,
        present != lanes.live,
        lambda p: f"{int(present[p])} of {int(lanes.live[p])} iterations of a block reach this place",
        "let all iterations of the block come to it, and choose values with `sg.select`",
    )
    return lanes


@RUN.row(n.SharedArray)
def _shared_array(m: Machine, s: n.SharedArray, f: LaneFrame) -> LaneFrame:
    size = _size(m)
    m.chunk.rows[s.var] = SharedRows(s.size, m.chunk.width, s.dtype, size)
    return f


@RUN.row(n.UpdateElement)
def _update_element(m: Machine, s: n.UpdateElement, f: LaneFrame) -> LaneFrame:
    rows, index = m.chunk.rows[s.var], f.value(s.index)
    check_element(m, s, f, index)
    assert isinstance(rows, SharedRows)
    f.values[s.result.id] = _result(m, rows.update(s.op, f, index.astype(np.int64), f.value(s.value)))
    return f


def _result(m: Machine, value: LaneVector) -> LaneVector:
    """Return a vector as the value of a frame; in a chunk of one lane values are 0-d."""
    return value[0] if m.chunk.width == 1 else value


@RUN.row(n.Sync)
def _sync(m: Machine, s: n.Sync, f: LaneFrame) -> LaneFrame:
    if SYNCS[s.kind]:
        _meet(m, s, f)
    return f


@RUN.row(n.Collective)
def _collective(m: Machine, s: n.Collective, f: LaneFrame) -> LaneFrame:
    row = COLLECTIVES[s.op]
    if row.exchanges:
        lanes, args = _meet(m, s, f), [f.spread(f.value(a)) for a in s.args]
        width = _size(m) if row.of_block else s.width
        made = _shuffle(lanes, width, *args) if row.kind == "shuffle" else _fold(s, row, lanes, width, args[0])
    else:
        made = _position(m, s.op, _lanes(m, f))
    f.values[s.result.id] = _result(m, made.astype(s.result.type.dtype))
    return f


def _position(m: Machine, op: str, lanes: BlockLanes) -> LaneVector:
    if op == "block":
        return lanes.block + m.chunk.start // _size(m)
    if op == "live":
        return lanes.live
    if op == "thread":
        return lanes.thread
    return lanes.thread % SUBGROUP if op == "lane" else lanes.thread // SUBGROUP


def _shuffle(lanes: BlockLanes, width: int, value: LaneVector, wanted: LaneVector) -> LaneVector:
    """Return for each lane the value of the lane that it wants, or its own one if there is none."""
    base = lanes.thread - lanes.thread % width
    wanted = wanted.astype(np.int64)
    is_there = (wanted >= 0) & (wanted < np.minimum(width, lanes.live - base))
    # All lanes of a block are there, so its lanes are neighbors.
    own = np.arange(value.size)
    picked: LaneVector = value[np.where(is_there, own - lanes.thread + base + wanted, own)]
    return picked


def _fold(s: n.Collective, row: CollectiveInfo, lanes: BlockLanes, width: int, value: LaneVector) -> LaneVector:
    """Return the reduction, scan or ballot of the values of each group, folded lane by lane in order."""
    dtype, op = s.result.type, row.fold or "bit_or"
    place = lanes.thread % width
    if row.kind == "ballot":
        value = np.where(value, np.left_shift(np.uint32(1), place.astype(np.uint32)), np.uint32(0))
    first = np.flatnonzero(place == 0)
    group = np.cumsum(place == 0) - 1
    total = np.full(first.size, start_of(row, dtype), dtype.dtype)
    out = np.empty(value.size, dtype.dtype)
    for k in range(int(place.max()) + 1):
        at = np.flatnonzero(place == number(k))
        before = total[group[at]]
        after = NUMPY[op].meaning(before, value[at])
        out[at] = after if row.kind == "inclusive" else before
        total[group[at]] = after
    return total[group] if row.kind in ("reduce", "ballot") else out
