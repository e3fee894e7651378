"""Which arrays a task of several axes accesses by the indices of its iteration and nothing else.

    for i, j in x: y[i, j] = f(x[i, j])        x and y

Where such an array has the extents of the box, and the box begins at 0, the element of an iteration has the iteration's
number, and no thread divides that into places along the axes. Whether it is so is known when a launch begins, so an
entry has both versions of the task, of which all threads take one.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Stmt, Task
from ...compiler.ir.walk import operands, walk

MOST = 32
"""Statements of a task that is written twice."""


def own_arrays(task: Task) -> frozenset[str]:
    """The arrays; none unless the task is short, without loops, and this is all that it does with its indices."""
    inside, indices = list(walk(task.body)), set(task.indices)
    if len(task.indices) < 2 or len(inside) > MOST:
        return frozenset()
    found: set[str] = set()
    for stmt in inside:
        own = _is_own(stmt, task)
        used = operands(stmt)[len(task.indices) :] if own else operands(stmt)
        if isinstance(stmt, (n.For, n.While, n.StackAlloca, n.Print)) or indices & set(used):
            return frozenset()
        if own:
            found.add(stmt.array)  # type: ignore[attr-defined]
    return frozenset(found)


def _is_own(stmt: Stmt, task: Task) -> bool:
    return isinstance(stmt, (n.Load, n.Store, n.Atomic)) and tuple(stmt.indices) == tuple(task.indices)
