"""This pass prepares tasks with blocks for GPUs, where each iteration of a block is a thread of a thread block.

    parallel i block 64 { A; sync block; B }   →   parallel t block 64 { if active { A }; sync block; if active { B } }

The box of the task is filled up to whole blocks, so all threads of a block come to every barrier; threads without an
iteration skip the phases. What the phases hand on lies in locals. Collectives become shuffles, on devices that have
them, or exchanges through a shared array between two barriers. All threads take the decisions of the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.collectives import COLLECTIVES, SUBGROUP, CollectiveInfo, start_of
from ..ir.kernels import Kernel, Task
from ..ir.statement import Value
from ..ir.types import Scalar, i32, i64, u32
from ..ir.walk import results, walk
from .block_writer import BlockWriter, PhaseScope, TaskBox
from .lower_blocks import each_task, prepared


def thread_blocks(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `tasks` whose blocks are thread blocks that exchange values through shared arrays.

    Raises:
        Unsupported: iterations of a block may part before a barrier or an exchange, or a block draws random numbers.
    """
    return each_task(prepared(kernel), lambda kernel, task: _ThreadWriter(kernel, task, warps=False).lower())


def thread_blocks_of_warps(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `tasks` whose blocks are thread blocks that exchange values by shuffles of warps.

    Raises:
        Unsupported: iterations of a block may part before a barrier or an exchange, or a block draws random numbers.
    """
    return each_task(prepared(kernel), lambda kernel, task: _ThreadWriter(kernel, task, warps=True).lower())


def _own_arrays(task: Task) -> set[str]:
    """Return the shared arrays of which each iteration updates no element but that of its number in the block."""
    made = {v: stmt for stmt in walk(task.body) for v in results(stmt)}

    def is_own(index: Value) -> bool:
        stmt = made.get(index)
        if isinstance(stmt, (n.Cast, n.Within)):
            return is_own(stmt.arg if isinstance(stmt, n.Cast) else stmt.index)
        return isinstance(stmt, n.Collective) and stmt.op == "thread"

    updates = [stmt for stmt in walk(task.body) if isinstance(stmt, n.UpdateElement)]
    return {s.var for s in updates} - {s.var for s in updates if not is_own(s.index)}


class _ThreadWriter(BlockWriter):
    """This class writes the phases of a block as branches that the threads with an iteration take.

    Attributes:
        warps: True if a subgroup is a warp, whose lanes exchange values directly.
        place: row-major number of the iteration.
        positions: where the thread stands, by the names of POSITIONS.
        active: True in threads that have an iteration.
        scratch: shared array through which values of each type are exchanged.
        own: shared arrays of which each iteration updates the element of its own number alone.
    """

    def __init__(self, kernel: Kernel, task: Task, warps: bool) -> None:
        super().__init__(kernel, task)
        self.warps = warps
        self.scratch: dict[Scalar, str] = {}
        self.own = _own_arrays(task)
        b = self.b
        self.place = b.fresh(i64)
        self.box = TaskBox(b, task)
        size, lanes = b.const(self.size, i64), b.const(SUBGROUP, i32)
        block = b.op("floordiv", self.place, size)
        first = b.op("mul", block, size)
        thread = b.cast(b.op("sub", self.place, first), i32)
        self.active = b.op("cmp_lt", self.place, self.box.total)
        self.positions = {
            "block": b.cast(block, i32),
            "thread": thread,
            "live": b.cast(b.op("min", b.op("sub", self.box.total, first), size), i32),
            "lane": b.op("mod", thread, lanes),
            "subgroup": b.op("floordiv", thread, lanes),
        }

    def lower(self) -> Task:
        """Return the task over threads."""
        b = self.b
        for shared in self.r.shared:
            b.loc = shared.loc
            b.emit(shared)
            self._clear(shared)
        if self.r.shared:
            b.sync("block")
        self.regions(self.r.regions)
        if self.r.shared or self.scratch:
            # The next block of this thread must not change what others of this block still read.
            b.sync("block")
        body = self.done(b)
        scratch = tuple(n.SharedArray(name, t, self.size, loc=self.task.loc) for t, name in self.scratch.items())
        return self._over_threads(replace(self.task, body=scratch + body))

    def _clear(self, shared: n.SharedArray) -> None:
        """Emit a loop in which the threads of a block set the elements of a shared array to zero."""
        b = self.b
        end, zero = b.const(shared.size, i32), b.const(0, shared.dtype)
        index = b.fresh(i32)
        with b.block() as body:
            b.set_element(shared.var, index, zero)
        b.emit(n.For(index, self.positions["thread"], end, tuple(body), step=self.size, loc=b.loc))

    def _over_threads(self, task: Task) -> Task:
        b = self.builder(task.loc)
        total = TaskBox(b, task).total
        zero, size = b.const(0, i64), b.const(self.size, i64)
        blocks = b.op("floordiv", b.op("add", total, b.const(self.size - 1, i64)), size)
        end = b.op("mul", blocks, size)
        return replace(task, indices=(self.place,), bounds=self.done(b), begin=(zero,), end=(end,))

    # -- phases -----------------------------------------------------------------------------------------------

    def each(self, run: Callable[[], None]) -> None:
        with self.b.block() as body:
            run()
        if body:
            self.b.if_(self.active, body)

    def declare_cells(self, name: str, dtype: Scalar) -> None:
        self.b.local(name, dtype)

    def read_cell(self, name: str, dtype: Scalar) -> Value:
        return self.b.get(name, dtype)

    def write_cell(self, name: str, value: Value) -> None:
        self.b.set(name, value)

    def first_cell(self, name: str, dtype: Scalar) -> Value:
        return self._exchanged(self.b.get(name, dtype), self.b.const(0, i32))

    def indices(self) -> dict[Value, Value]:
        return self.box.indices(self.b, self.task, self.place)

    def position(self, op: str) -> Value:
        return self.positions[op]

    def declare_array(self, stmt: n.LocalArray) -> None:
        self.cells[stmt.var] = stmt.var
        self.b.emit(stmt)

    def block_statement(self, stmt: Any, scope: PhaseScope) -> bool:
        if isinstance(stmt, n.UpdateElement) and stmt.var in self.own:
            self.plain_update(stmt, scope)
            return True
        return False

    # -- meetings ---------------------------------------------------------------------------------------------

    def meeting(self, stmt: n.Sync | n.Collective) -> None:
        if isinstance(stmt, n.Sync):
            # Without warps, a subgroup is a part of the block that nothing but its barrier can hold together.
            self.b.sync(stmt.kind if self.warps else "block")
            return
        row = COLLECTIVES[stmt.op]
        name = self.declare_value(stmt.result)
        self.write_cell(name, self._shuffled(stmt) if row.kind == "shuffle" else self._folded(stmt, row))

    def _own(self, value: Value) -> Value:
        """Return, outside phases, the value of this thread; it is arbitrary in threads without an iteration."""
        if value in self.fixed:
            return value
        if value in self.cells:
            return self.read_cell(self.cells[value], value.type)
        name = self.name("cell")
        self.declare_cells(name, value.type)
        self.each(lambda: self.write_cell(name, self.operand(value, {})))
        return self.read_cell(name, value.type)

    def _exchanged(self, value: Value, source: Value) -> Value:
        """Emit an exchange through shared memory, and return the value of the thread `source` of the block."""
        b = self.b
        name = self.scratch.get(value.type)
        if name is None:
            name = self.scratch[value.type] = self.name("scratch")
        b.set_element(name, self.positions["thread"], value)
        b.sync("block")
        found = b.get_element(name, source, value.type)
        b.sync("block")
        return found

    def _from(self, value: Value, source: Value, of_block: bool) -> Value:
        """Return the value of the thread `source` of the block, which is in the same group."""
        if of_block or not self.warps:
            return self._exchanged(value, source)
        # A warp has 32 lanes of one word each; types of other widths travel as words.
        return self.b.collective("shuffle", value, self.b.op("mod", source, self.b.const(SUBGROUP, i32)))

    def _group(self, width: int) -> tuple[Value, Value, Value]:
        """Return the first thread of this thread's group, the place in the group, and the number of its iterations."""
        b, thread = self.b, self.positions["thread"]
        place = b.op("mod", thread, b.const(width, i32))
        base = b.op("sub", thread, place)
        return base, place, b.op("min", b.const(width, i32), b.op("sub", self.positions["live"], base))

    def _shuffled(self, stmt: n.Collective) -> Value:
        b = self.b
        value, wanted = (self._own(v) for v in stmt.args)
        base, _, live = self._group(stmt.width)
        is_there = b.op("logical_and", b.op("cmp_ge", wanted, b.const(0, i32)), b.op("cmp_lt", wanted, live))
        source = b.op("select", is_there, b.op("add", base, wanted), self.positions["thread"])
        return self._from(value, source, False)

    def _folded(self, stmt: n.Collective, row: CollectiveInfo) -> Value:
        """Return the reduction, scan or ballot of the values of a group."""
        b, value = self.b, self._own(stmt.args[0])
        width = self.size if row.of_block else stmt.width
        if row.kind == "ballot":
            if self.warps and width == SUBGROUP:
                return b.collective("ballot", b.op("logical_and", value, self.active))
            bit = b.op("bit_shl", b.const(1, u32), b.cast(self._group(width)[1], u32))
            value = b.op("select", b.op("logical_and", value, self.active), bit, b.const(0, u32))
        return self._scanned(value, row, width)

    def _scanned(self, value: Value, row: CollectiveInfo, width: int) -> Value:
        """Emit a scan by doubling distances; a reduction is what the last lane of the group has then."""
        b, thread = self.b, self.positions["thread"]
        base, place, live = self._group(width)
        fold, distance = row.fold or "bit_or", 1
        while distance < width:
            far = b.const(distance, i32)
            takes = b.op("cmp_ge", place, far)
            other = self._from(value, b.op("select", takes, b.op("sub", thread, far), thread), row.of_block)
            value = b.op("select", takes, b.op(fold, other, value), value)
            distance *= 2
        if row.kind == "inclusive":
            return value
        one, zero = b.const(1, i32), b.const(0, i32)
        if row.kind == "exclusive":
            is_first = b.op("cmp_eq", place, zero)
            before = self._from(value, b.op("select", is_first, thread, b.op("sub", thread, one)), row.of_block)
            start = b.const(start_of(row, value.type), value.type)
            return b.op("select", is_first, start, b.op(fold, start, before))
        last = b.op("sub", b.op("add", base, live), one)
        return self._from(value, b.op("select", b.op("cmp_gt", live, zero), last, thread), row.of_block)
