"""This pass turns each task with blocks into a task over its blocks, whose iterations loop over those of a block.

    parallel i block 64 { A; sync block; B }   →   parallel b { for j in 0 .. live { A }; for j in 0 .. live { B } }

What crosses a barrier lies in local arrays with an element for each iteration of the block; a shared array is such a
local array itself. The result is ordinary IR: it runs on every backend, and reverse mode differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.collectives import COLLECTIVES, SUBGROUP, CollectiveInfo, start_of
from ..ir.kernels import Kernel, Task, Temp
from ..ir.statement import Block, Value
from ..ir.types import Scalar, i32, i64, u32
from ..ir.walk import next_id
from .block_regions import refuse_draws
from .block_writer import BlockWriter, PhaseScope, TaskBox, computes_bounds_anew, lanes_of
from .lower_exits import lower_exits
from .number_draws import number_draws


def has_blocks(kernel: Kernel) -> bool:
    """Return True if a task of the kernel has blocks."""
    return any(task.block for task in kernel.tasks)


def lower_blocks(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `tasks` without blocks, or the same object if it has none.

    Raises:
        Unsupported: iterations of a block may part before a barrier or an exchange, or a block draws random numbers.
    """
    if not has_blocks(kernel):
        return kernel
    return each_task(prepared(kernel), lambda kernel, task: _LoopWriter(kernel, task).lower())


def prepared(kernel: Kernel) -> Kernel:
    """Return a kernel with numbered draws, without exits, and with bounds that bodies can compute anew."""
    kernel = lower_exits(number_draws(refuse_draws(kernel)))
    for index in reversed(range(len(kernel.tasks))):
        task = kernel.tasks[index]
        if task.block and not computes_bounds_anew(task):
            kernel = _with_stored_bounds(kernel, index)
    return kernel


def each_task(kernel: Kernel, lower: Callable[[Kernel, Task], Task]) -> Kernel:
    """Return a kernel whose tasks with blocks are lowered one by one."""
    for index, task in enumerate(kernel.tasks):
        if task.block:
            tasks = list(kernel.tasks)
            tasks[index] = lower(kernel, task)
            kernel = replace(kernel, tasks=tuple(tasks))
    return kernel


def _with_stored_bounds(kernel: Kernel, index: int) -> Kernel:
    """Return the kernel with a serial task before a task, which computes its bounds and stores them to temporaries."""
    task, b, read = kernel.tasks[index], Builder(), Builder(next_id(kernel))
    b.loc = read.loc = kernel.tasks[index].loc
    taken = set(kernel.array_types())
    temps, ends = [], []
    for k, value in enumerate((*task.begin, *task.end)):
        name = next(name for name in (f"$box.{index}.{k}{'_' * m}" for m in range(99)) if name not in taken)
        temps.append(Temp(name, value.type))
        b.store(name, (), value)
        ends.append(read.load(name, (), value.type))
    loads = read.take()
    store = Task((*task.bounds, *b.take()), loc=task.loc)
    half = len(task.indices)
    own = replace(task, bounds=loads, begin=tuple(ends[:half]), end=tuple(ends[half:]))
    tasks = (*kernel.tasks[:index], store, own, *kernel.tasks[index + 1 :])
    return replace(kernel, tasks=tasks, temps=(*kernel.temps, *temps))


class _LoopWriter(BlockWriter):
    """This class writes each phase of a block as a serial loop over the iterations of the block.

    Attributes:
        block: number of the block.
        live: number of its iterations.
        lane: number of the current iteration, in a phase.
    """

    block: Value
    live: Value
    lane: Value

    def lower(self) -> Task:
        """Return the task over the blocks."""
        b, task = self.b, self.task
        self.block = b.fresh(i32)
        self.box = TaskBox(b, task)
        size = b.const(self.size, i64)
        rest = b.op("sub", self.box.total, b.op("mul", b.cast(self.block, i64), size))
        self.live = b.cast(b.op("min", rest, size), i32)
        for shared in self.r.shared:
            b.emit(n.LocalArray(shared.var, shared.dtype, shared.size, loc=shared.loc))
        self.regions(self.r.regions)
        body = self.done(b)
        return self._over_blocks(body)

    def _over_blocks(self, body: Block) -> Task:
        b = self.builder(self.task.loc)
        total = TaskBox(b, self.task).total
        zero, size = b.const(0, i32), b.const(self.size, i64)
        count = b.op("floordiv", b.op("add", total, b.const(self.size - 1, i64)), size)
        end = b.cast(count, i32)
        return replace(
            self.task, body=body, indices=(self.block,), bounds=self.done(b), begin=(zero,), end=(end,), block=0
        )

    # -- phases -----------------------------------------------------------------------------------------------

    def each(self, run: Callable[[], None]) -> None:
        zero = self.b.const(0, i32)
        self.lane = self.b.fresh(i32)
        with self.b.block() as body:
            run()
        if body:
            self.b.emit(n.For(self.lane, zero, self.live, tuple(body), loc=self.b.loc))

    def declare_cells(self, name: str, dtype: Scalar) -> None:
        self.b.emit(n.LocalArray(name, dtype, self.size, loc=self.b.loc))

    def read_cell(self, name: str, dtype: Scalar) -> Value:
        return self.b.get_element(name, self.lane, dtype)

    def write_cell(self, name: str, value: Value) -> None:
        self.b.set_element(name, self.lane, value)

    def first_cell(self, name: str, dtype: Scalar) -> Value:
        return self.b.get_element(name, self.b.const(0, i32), dtype)

    def indices(self) -> dict[Value, Value]:
        b = self.b
        dtype = i64 if len(self.task.indices) > 1 else self.task.indices[0].type
        first = b.op("mul", b.cast(self.block, dtype), b.const(self.size, dtype))
        return self.box.indices(b, self.task, b.op("add", first, b.cast(self.lane, dtype)))

    def position(self, op: str) -> Value:
        if op in ("block", "live"):
            return self.block if op == "block" else self.live
        if op == "thread":
            return self.lane
        return self.b.op("mod" if op == "lane" else "floordiv", self.lane, self.b.const(SUBGROUP, i32))

    # -- memory -----------------------------------------------------------------------------------------------

    def declare_array(self, stmt: n.LocalArray) -> None:
        self.cells[stmt.var] = stmt.var
        self.b.emit(replace(stmt, size=stmt.size * self.size))

    def block_statement(self, stmt: Any, scope: PhaseScope) -> bool:
        if isinstance(stmt, n.Sync):
            # One iteration after another: memory is always in order.
            return True
        if isinstance(stmt, n.UpdateElement):
            self.plain_update(stmt, scope)
            return True
        if isinstance(stmt, (n.GetElement, n.SetElement)) and isinstance(self.r.locals.get(stmt.var), n.LocalArray):
            self._own_element(stmt, scope)
            return True
        return False

    def _own_element(self, stmt: n.GetElement | n.SetElement, scope: PhaseScope) -> None:
        """Emit an access to the part of a local array that belongs to the current iteration."""
        declared, b = self.r.locals[stmt.var], self.b
        assert isinstance(declared, n.LocalArray)
        index = scope.values.get(stmt.index, stmt.index)
        size = b.const(declared.size, i32)
        inside = b.cast(b.within(index, size, f"an index of `{stmt.var}`"), i32)
        place = b.op("add", b.op("mul", self.lane, size), inside)
        b.emit(replace(self.renamed(stmt, scope), index=place))  # type: ignore[call-arg]

    # -- meetings ---------------------------------------------------------------------------------------------

    def meeting(self, stmt: n.Sync | n.Collective) -> None:
        if isinstance(stmt, n.Sync):
            return
        row = COLLECTIVES[stmt.op]
        if row.kind == "shuffle":
            self._shuffle(stmt)
        else:
            self._fold(stmt, row)

    def _array(self, value: Value) -> str:
        """Declare a local array with a value for each iteration of a block, emit its stores, and return its name."""
        if value in self.cells:
            return self.cells[value]
        name = self.name("cell")
        self.declare_cells(name, value.type)
        self.each(lambda: self.write_cell(name, self.operand(value, {})))
        return name

    def _shuffle(self, stmt: n.Collective) -> None:
        value, wanted = stmt.args
        source, out = self._array(value), self.declare_value(stmt.result)

        def run() -> None:
            b, lanes = self.b, lanes_of(self.b, stmt.width)
            base = b.op("sub", self.lane, b.op("mod", self.lane, lanes))
            lane = self.operand(wanted, {})
            below = b.op("cmp_lt", lane, b.op("min", lanes, b.op("sub", self.live, base)))
            is_there = b.op("logical_and", b.op("cmp_ge", lane, b.const(0, i32)), below)
            place = b.op("select", is_there, b.op("add", base, lane), self.lane)
            self.write_cell(out, b.get_element(source, place, value.type))

        self.each(run)

    def _fold(self, stmt: n.Collective, row: CollectiveInfo) -> None:
        """Emit a loop over the groups of the block, which folds the values of each group in order."""
        source, out, b = self._array(stmt.args[0]), self.declare_value(stmt.result), self.b
        size = lanes_of(b, self.size if row.of_block else stmt.width)
        zero, group = b.const(0, i32), b.fresh(i32)
        groups = b.op("floordiv", b.op("add", self.live, b.op("sub", size, b.const(1, i32))), size)
        with b.block() as body:
            base = b.op("mul", group, size)
            end = b.op("min", b.op("add", base, size), self.live)
            self._fold_group(row, stmt, (source, out), (base, end))
        b.emit(n.For(group, zero, groups, tuple(body), loc=b.loc))

    def _fold_group(
        self, row: CollectiveInfo, stmt: n.Collective, names: tuple[str, str], ends: tuple[Value, Value]
    ) -> None:
        """Emit the fold of one group, from cells to cells.

        Args:
            row: the collective.
            stmt: the statement.
            names: cells of the operand and of the result.
            ends: first iteration of the group, and the one after its last.
        """
        b, (source, out), (base, end), dtype = self.b, names, ends, stmt.result.type
        total = self.name("fold")
        b.emit(n.Local(total, dtype, loc=b.loc))
        b.set(total, b.const(start_of(row, dtype), dtype))
        lane = b.fresh(i32)
        with b.block() as body:
            own = b.get_element(source, lane, stmt.args[0].type)
            if row.kind == "ballot":
                bit = b.op("bit_shl", b.const(1, u32), b.cast(b.op("sub", lane, base), u32))
                own = b.op("select", own, bit, b.const(0, u32))
            before = b.get(total, dtype)
            after = b.op(row.fold or "bit_or", before, own)
            if row.kind in ("inclusive", "exclusive"):
                b.set_element(out, lane, after if row.kind == "inclusive" else before)
            b.set(total, after)
        b.emit(n.For(lane, base, end, tuple(body), loc=b.loc))
        if row.kind in ("reduce", "ballot"):
            lane = b.fresh(i32)
            result = b.get(total, dtype)
            with b.block() as body:
                b.set_element(out, lane, result)
            b.emit(n.For(lane, base, end, tuple(body), loc=b.loc))
