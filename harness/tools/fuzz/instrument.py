"""Add statements to kernels that store each value in a trace array, or add an array element to each real value.

    traced      v = sin x   ->   v = sin x; store $real[slot, lane], v           the last value of each iteration
    movable     v = sin x   ->   v = sin x; w = add v, $move[slot, lane]          w wherever v was used after it

A slot is a statement of the text, and a lane the row-major number of an iteration in its box. Boxes are those of one
launch, inserted as constants. Values of `while` conditions are left alone, because only the test of the loop uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ....backends.base import Draws, Scalars, Sizes
from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel, Param, Task
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import ArrayType, f64, i32, i64
from ....compiler.ir.walk import map_blocks, next_id, rename, results
from ....reference.launch import run
from ...testing.outcome import Arrays

REAL, WHOLE, MOVE = "$real", "$whole", "$move"
_SILENT = (n.Const, n.Arg, n.Shape, n.For, n.While, n.Atomic)
"""Statements without a slot: their results are known, or shown by the statements that use them.

The old value of an atomic depends on the order of iterations, and storing it would make the kernel depend on the order.
"""

PointBox = tuple[tuple[int, ...], tuple[int, ...]]
"""First point and extents of a task; both are empty for a serial task."""


@dataclass(frozen=True)
class TracedStatement:
    """Represent a statement whose value is stored or shifted: its number, its task, and the value that it defines."""

    number: int
    task: int
    stmt: Stmt
    value: Value


@dataclass(frozen=True)
class Instrumented:
    """Represent a kernel whose added statements store or shift each value, and the arrays added for this purpose.

    Attributes:
        kernel: The kernel with more array parameters.
        arrays: Initial contents of the added arrays.
    """

    kernel: Kernel
    slots: tuple[TracedStatement, ...]
    arrays: dict[str, np.ndarray]


def boxes(kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> list[PointBox]:
    """Return the box of each task of a kernel, with no axes for a serial task, found by launches on the reference.

    Args:
        kernel: The kernel to launch.
        arrays: Initial contents of its arrays, which do not change.
        scalars: Arguments of the launch.
        draws: State of the random numbers.

    Raises:
        Exception: Any trap that the launch raises.
    """
    name = "$box"
    found: list[PointBox] = []
    memory = {k: a.copy() for k, a in arrays.items()}
    for number, task in enumerate(kernel.tasks):
        if not task.is_parallel:
            found.append(((), ()))
            continue
        ends = np.zeros(2 * len(task.indices), np.int64)
        params = (*kernel.params, Param(name, ArrayType(i64, 1)))
        probe = replace(kernel, params=params, tasks=(*kernel.tasks[:number], _probe(kernel, task, name)))
        # Each probe runs all tasks before the parallel task, because its bounds may be in memory.
        run(probe, {k: a.copy() for k, a in memory.items()} | {name: ends}, scalars, Sizes(), draws)
        begin, end = (tuple(map(int, half)) for half in np.split(ends, 2))
        found.append((begin, tuple(max(e - b, 0) for b, e in zip(begin, end))))
    return found


def _probe(kernel: Kernel, task: Task, name: str) -> Task:
    """Return a serial task that stores the bounds of a parallel task to the array `name`."""
    b = Builder(next_id(kernel))
    for k, value in enumerate((*task.begin, *task.end)):
        b.store(name, (b.const(k, i32),), b.cast(value, i64))
    return Task((*task.bounds, *b.take()))


def trace_values(kernel: Kernel, of: list[PointBox]) -> Instrumented:
    """Return a kernel that stores every value of its tasks' bodies: reals as f64, other values as i64."""
    maker = _Instrumenter(kernel, of)

    def store(stmt: Stmt, value: Value, slot: Value, lane: Value) -> None:
        array, dtype = (REAL, f64) if value.type.is_real else (WHOLE, i64)
        maker.b.store(array, (slot, lane), maker.b.cast(value, dtype))

    return maker.make(store, lambda value: True, {REAL: ArrayType(f64, 2), WHOLE: ArrayType(i64, 2)})


def offset_values(kernel: Kernel, of: list[PointBox]) -> Instrumented:
    """Return the kernel with an offset added to each real value, whose gradient is the adjoint of that value."""
    maker = _Instrumenter(kernel, of)

    def move(stmt: Stmt, value: Value, slot: Value, lane: Value) -> None:
        offset = maker.b.cast(maker.b.load(MOVE, (slot, lane), f64), value.type)
        maker.renamed[value] = maker.b.op("add", value, offset)

    return maker.make(move, lambda value: value.type.is_real, {MOVE: ArrayType(f64, 2, grad=True)})


Insert = Callable[[Stmt, Value, Value, Value], None]


class _Instrumenter:
    """Rebuild the tasks of a kernel with statements that store or shift each defined value, inserted after it."""

    def __init__(self, kernel: Kernel, of: list[PointBox]) -> None:
        self.kernel = kernel
        self.boxes = of
        self.b = Builder(next_id(kernel))
        self.slots: list[TracedStatement] = []
        self.renamed: dict[Value, Value] = {}
        self.task = 0
        self.lane: Value | None = None

    def make(self, insert: Insert, wanted: Callable[[Value], bool], params: dict[str, ArrayType]) -> Instrumented:
        """Return the kernel with statements inserted after each statement that defines a wanted value.

        Args:
            insert: Function that emits the statements for one value.
            wanted: Predicate on the values that get a slot.
            params: Types of the added arrays by name.
        """
        self.insert, self.wanted = insert, wanted
        tasks = []
        for number, task in enumerate(self.kernel.tasks):
            self.task = number
            self.lane = self._lane(task)
            head = self.b.take()
            tasks.append(replace(task, body=head + self.block(task.body)))
        added = tuple(Param(name, kind) for name, kind in params.items())
        kernel = replace(self.kernel, params=self.kernel.params + added, tasks=tuple(tasks))
        lanes = max((math.prod(extents) for _, extents in self.boxes), default=1)
        shape = (max(len(self.slots), 1), max(lanes, 1))
        return Instrumented(kernel, tuple(self.slots), {k: np.zeros(shape, t.dtype.dtype) for k, t in params.items()})

    def _lane(self, task: Task) -> Value:
        """Emit the row-major number of the iteration in the box of its task."""
        lane = self.b.const(0, i32)
        begin, extents = self.boxes[self.task]
        for index, first, extent in zip(task.indices, begin, extents):
            digit = self.b.op("sub", self.b.cast(index, i32), self.b.const(first, i32))
            lane = self.b.op("add", self.b.op("mul", lane, self.b.const(extent, i32)), digit)
        return lane

    def block(self, block: Block) -> Block:
        """Return a block with further statements inserted, which record the defined values or add offsets to them."""
        made: list[Stmt] = []
        for old in block:
            stmt = rename(old, self.renamed) if self.renamed else old
            made.append(self._inner(stmt))
            self.b.loc = old.loc
            for value in () if isinstance(old, _SILENT) else results(old):
                if self.wanted(value):
                    self._slot(old, value)
            made += self.b.take()
        return tuple(made)

    def _inner(self, stmt: Stmt) -> Stmt:
        # The condition block of a `while` is left alone.
        if isinstance(stmt, n.While):
            return replace(stmt, body=self.block(stmt.body))
        return map_blocks(stmt, self.block)

    def _slot(self, stmt: Stmt, value: Value) -> None:
        assert self.lane is not None
        slot = TracedStatement(len(self.slots), self.task, stmt, value)
        self.slots.append(slot)
        self.insert(stmt, value, self.b.const(slot.number, i32), self.lane)
