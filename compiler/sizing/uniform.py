"""This module replaces a counting task whose iterations all add the same counts by a task of one iteration.

    parallel %2 in %0 .. %1 { ..; atomic max $depths[k], depth; atomic add $rows[r], used }
        →
    parallel %2 in %0 .. min(%1, %0 + 1) { ..; atomic max $depths[k], depth; atomic add $rows[r], used * (%1 - %0) }

The same is done for every array of sums. So if an argument, a shape or one element of a field bounds a loop, counting
takes a launch of one iteration, however many iterations the task has. The result is exact in any case.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Task
from ..ir.roles import ARRAY_WRITES
from ..ir.statement import Block, Stmt, Value
from ..ir.types import i64
from ..ir.walk import next_id, operands, rename_operands, replace_fields, results, walk

PURE = (n.Const, n.Arg, n.Shape, n.Load, n.Op, n.Cast, n.Within)
"""Statements of which a block of bounds may consist to be repeated."""


def collapse_uniform(kernel: Kernel, sums: tuple[str, ...], outputs: tuple[str, ...]) -> Kernel:
    """Return the counting kernel with each task whose iterations add the same counts reduced to one iteration.

    The result is the same kernel if no task is uniform.

    Args:
        kernel: The counting kernel.
        sums: Arrays that add up over iterations.
        outputs: All arrays to which the counting kernel writes its results.
    """
    tasks, first_id = [], next_id(kernel)
    for task in kernel.tasks:
        if _is_uniform(task, outputs):
            collapse = _TaskCollapse(task, sums, first_id)
            task, first_id = collapse.task(), collapse.b.next_id
        tasks.append(task)
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tuple(tasks))


def _is_uniform(task: Task, outputs: tuple[str, ...]) -> bool:
    """Return True if all iterations of a task do the same and write to the output arrays only."""
    if not task.is_parallel or not all(isinstance(s, PURE) for s in task.bounds):
        return False
    indices = set(task.indices)
    for stmt in walk(task.body):
        stores = isinstance(stmt, ARRAY_WRITES) and stmt.array not in outputs
        if stores or isinstance(stmt, n.Random) or not indices.isdisjoint(operands(stmt)):
            return False
    return bool(task.body)


class _TaskCollapse:
    """This class replaces one counting task whose iterations all add the same counts by a task of one iteration."""

    def __init__(self, task: Task, sums: tuple[str, ...], first_id: int) -> None:
        self.whole = task
        self.sums = sums
        self.b = Builder(first_id)

    def task(self) -> Task:
        """Return the task reduced to one iteration, or to no iteration if the original task has none."""
        task = self.whole
        end = tuple(self._least(begin, end) for begin, end in zip(task.begin, task.end))
        bounds = task.bounds + self.b.take()
        count = self._iterations()
        head = self.b.take()
        return replace(task, bounds=bounds, end=end, body=head + self._block(task.body, count))

    def _least(self, begin: Value, end: Value) -> Value:
        """Return min(end, begin + 1), the end of an axis that is shortened to at most one index."""
        return self.b.op("min", end, self.b.op("add", begin, self.b.const(1, begin.type)))

    def _iterations(self) -> Value:
        """Return the number of iterations of the original task.

        It is computed from a copy of the bounds, because the body does not see the values of the bounds.
        """
        names: dict[Value, Value] = {}
        for stmt in self.whole.bounds:
            (old,) = results(stmt)
            names[old] = self.b.fresh(old.type)
            self.b.emit(replace_fields(rename_operands(stmt, names), result=names[old]))
        count = self.b.const(1, i64)
        for begin, end in zip(self.whole.begin, self.whole.end):
            extent = self.b.op("sub", self.b.cast(names[end], i64), self.b.cast(names[begin], i64))
            count = self.b.op("mul", count, extent)
        return count

    def _block(self, block: Block, count: Value) -> Block:
        """Return the block with each atomic addition to an array of sums multiplied by the number of iterations."""
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Atomic) and stmt.array in self.sums:
                product = self.b.op("mul", stmt.value, count)
                out += (*self.b.take(), replace_fields(stmt, value=product))
            else:
                out.append(stmt)
        return tuple(out)
