"""Decide how many iterations of a task a GPU thread runs together, so that their loads overlap.

    y[i] = x[i]    →    a = x[i];  b = x[i + T];  ..;  y[i] = a;  y[i + T] = b;  ..

T is the number of threads.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.roles import LOOPS, SCALAR_USES, STRAIGHT
from ...compiler.ir.walk import used_values, walk
from ..codegen.emit import ModuleState

GROUP = 4
"""Iterations of a small task that a thread has under way together."""

SMALL = 24
"""Most statements of a task whose iterations run in groups."""


def coarsening_factor(m: ModuleState, task: Task) -> int:
    """Return the number of iterations that a thread runs together; above 1 if the body is short and loads memory."""
    if task.block:
        return 1
    inside = list(walk(task.body))
    short = len(inside) <= SMALL and not any(isinstance(s, (*LOOPS, n.StackPush, n.Print)) for s in inside)
    return GROUP if short and any(isinstance(s, n.Load) for s in inside) and not m.options.debug else 1


_STRAIGHT = (*STRAIGHT, n.Local, *SCALAR_USES)


def may_write_late(task: Task) -> bool:
    """Return True if iterations that one thread runs together may all load before one of them writes.

    No iteration may read memory that it has written before; what other iterations write it does not read, as that is a
    race.
    """
    written: set[str] = set()
    used = used_values(walk(task.body))
    for stmt in task.body:
        if not isinstance(stmt, _STRAIGHT) or isinstance(stmt, n.Load) and stmt.array in written:
            return False
        if isinstance(stmt, n.Store):
            written.add(stmt.array)
        if isinstance(stmt, n.Atomic):
            if stmt.array in written or stmt.result in used or stmt.expected is not None or stmt.value.type.is_bool:
                return False
            written.add(stmt.array)
    return True
