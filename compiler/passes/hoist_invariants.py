"""This pass moves computations that give the same result in each trip of a serial loop in front of the loop.

    for %2: i32 in %0 .. %1 {             %3: f32 = sqrt %9
      %3: f32 = sqrt %9                   for %2: i32 in %0 .. %1 {
      %4: f32 = load a[%2]                  %4: f32 = load a[%2]
      %5: f32 = mul %3, %4                  %5: f32 = mul %3, %4
      store a[%2], %5                       store a[%2], %5
    }                                     }

The loop may make no trip at all, so only pure statements that cannot trap move: no load, no element read, and an
integer division only by a constant other than 0. Inner loops come first, so that a statement moves out as far as it
can. A statement inside an if stays there, because executing it when the branch is not taken would cost time.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.effects import is_pure, may_trap
from ..ir.nodes import Block, Kernel, Stmt, Task, Value
from ..ir.roles import LOOPS
from ..ir.walk import map_blocks, operands, results, walk_kernel


def hoist_invariants(kernel: Kernel) -> Kernel:
    """Return the kernel with loop-invariant values computed before their loops.

    The same object is returned if there are no such values.
    """
    nonzero = {s.result for s in walk_kernel(kernel) if isinstance(s, n.Const) and s.value != 0}
    tasks = tuple(_hoist_task(task, nonzero) for task in kernel.tasks)
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tasks)


def _hoist_task(task: Task, nonzero: set[Value]) -> Task:
    bounds, body = _block(task.bounds, nonzero), _block(task.body, nonzero)
    return task if bounds is task.bounds and body is task.body else replace(task, bounds=bounds, body=body)


def _block(block: Block, nonzero: set[Value]) -> Block:
    made: list[Stmt] = []
    for stmt in block:
        stmt = map_blocks(stmt, lambda inner: _block(inner, nonzero))
        made.extend(_hoist(stmt, nonzero) if isinstance(stmt, LOOPS) else (stmt,))
    return block if len(made) == len(block) and all(a is b for a, b in zip(made, block)) else tuple(made)


def _hoist(loop: n.For | n.While, nonzero: set[Value]) -> list[Stmt]:
    """Return the invariant statements of the loop, followed by the loop without them."""
    moved: list[Stmt] = []
    # These are the values that the loop defines and keeps, as far as its own blocks can see them.
    varying = {loop.index} if isinstance(loop, n.For) else set()

    def split(block: Block) -> Block:
        kept = []
        for stmt in block:
            if _may_move(stmt, nonzero) and varying.isdisjoint(operands(stmt)):
                moved.append(stmt)
            else:
                kept.append(stmt)
                varying.update(results(stmt))
        return tuple(kept) if len(kept) < len(block) else block

    rest = map_blocks(loop, split)
    return [*moved, rest]


def _may_move(stmt: Stmt, nonzero: set[Value]) -> bool:
    """Return True if the statement is pure and cannot trap."""
    if not is_pure(stmt):
        return False
    return not may_trap(stmt) or isinstance(stmt, n.Op) and stmt.args[-1] in nonzero
