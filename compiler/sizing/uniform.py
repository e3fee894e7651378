"""Tasks of a counting kernel whose iterations all count the same: one of them counts for all.

    parallel %2 in %0 .. %1 { ..; atomic max $depths[k], depth; atomic add $rows[r], used }
        →
    parallel %2 in %0 .. min(%1, %0 + 1) { ..; atomic max $depths[k], depth; atomic add $rows[r], used * (%1 - %0) }

and likewise for every array of sums.

So a bound that an argument, a shape or one element of a field gives costs a launch of one iteration, however many the
task has. The result is exact in any case.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.nodes import Block, Kernel, Stmt, Task, Value
from ..ir.types import i64
from ..ir.walk import changed, next_id, operands, rename_operands, results, walk

PURE = (n.Const, n.Arg, n.Shape, n.Load, n.Op, n.Cast)
"""What a block of bounds may be made of to be repeated."""


def collapse_uniform(kernel: Kernel, sums: tuple[str, ...], outputs: tuple[str, ...]) -> Kernel:
    """A counting kernel, tasks with uniform iterations reduced to one each. sums: arrays that add up over
    iterations; outputs: all arrays that the counting kernel fills. The same kernel if no task is uniform.
    """
    tasks, first_id = [], next_id(kernel)
    for task in kernel.tasks:
        if _is_uniform(task, outputs):
            collapse = _Collapse(task, sums, first_id)
            task, first_id = collapse.task(), collapse.b.next_id
        tasks.append(task)
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tuple(tasks))


def _is_uniform(task: Task, outputs: tuple[str, ...]) -> bool:
    """Whether no statement tells one iteration from another, and running several times changes only the outputs."""
    if not task.is_parallel or not all(isinstance(s, PURE) for s in task.bounds):
        return False
    indices = set(task.indices)
    for stmt in walk(task.body):
        stores = isinstance(stmt, (n.Store, n.Atomic)) and stmt.array not in outputs
        if stores or isinstance(stmt, n.Random) or not indices.isdisjoint(operands(stmt)):
            return False
    return bool(task.body)


class _Collapse:
    def __init__(self, task: Task, sums: tuple[str, ...], first_id: int) -> None:
        self.whole = task
        self.sums = sums
        self.b = Builder(first_id)

    def task(self) -> Task:
        """The task with one iteration, if it has any."""
        task = self.whole
        end = tuple(self._least(begin, end) for begin, end in zip(task.begin, task.end))
        bounds = task.bounds + self.b.take()
        count = self._iterations()
        head = self.b.take()
        return replace(task, bounds=bounds, end=end, body=head + self._block(task.body, count))

    def _least(self, begin: Value, end: Value) -> Value:
        return self.b.op("min", end, self.b.op("add", begin, self.b.const(1, begin.type)))

    def _iterations(self) -> Value:
        """The number of points of the box, from its bounds made once more: the body does not see those of the task."""
        names: dict[Value, Value] = {}
        for stmt in self.whole.bounds:
            (old,) = results(stmt)
            names[old] = self.b.fresh(old.type)
            self.b.emit(changed(rename_operands(stmt, names), result=names[old]))
        count = self.b.const(1, i64)
        for begin, end in zip(self.whole.begin, self.whole.end):
            extent = self.b.op("sub", self.b.cast(names[end], i64), self.b.cast(names[begin], i64))
            count = self.b.op("mul", count, extent)
        return count

    def _block(self, block: Block, count: Value) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Atomic) and stmt.array in self.sums:
                product = self.b.op("mul", stmt.value, count)
                out += (*self.b.take(), changed(stmt, value=product))
            else:
                out.append(stmt)
        return tuple(out)
