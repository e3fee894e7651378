"""This module finds the arrays that a task of several axes accesses only by the indices of its iteration.

    for i, j in x: y[i, j] = f(x[i, j])        x and y

If all these arrays have the extents of the box, and the box begins at 0, the element of an iteration has the
iteration's number, and no thread divides that into places along the axes. A launch finds this out when it begins, so an
entry has both versions of the task, of which all threads take one.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.roles import ACCESSES, LOOPS
from ...compiler.ir.statement import Stmt
from ...compiler.ir.walk import operands, walk

MOST = 32
"""Most statements of a task that is written twice."""


def own_arrays(task: Task) -> frozenset[str]:
    """Return the arrays whose elements a task accesses only at the indices of its iteration.

    The set is empty if the task has one axis, a loop, a long body, or uses its indices for anything else.
    """
    inside, indices = list(walk(task.body)), set(task.indices)
    if len(task.indices) < 2 or len(inside) > MOST:
        return frozenset()
    found: set[str] = set()
    for stmt in inside:
        own = _is_own(stmt, task)
        used = operands(stmt)[len(task.indices) :] if own else operands(stmt)
        if isinstance(stmt, (*LOOPS, n.StackAlloca, n.Print)) or indices & set(used):
            return frozenset()
        if own:
            found.add(stmt.array)  # type: ignore[attr-defined]
    return frozenset(found)


def _is_own(stmt: Stmt, task: Task) -> bool:
    """Return True if a statement accesses an element by the indices of its iteration."""
    return isinstance(stmt, ACCESSES) and tuple(stmt.indices) == tuple(task.indices)
