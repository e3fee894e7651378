"""This module says which tasks' iterations the host can count before a launch."""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Task
from ...compiler.ir.walk import walk

_COUNTABLE = (n.Const, n.Arg, n.Shape, n.Op, n.Cast, n.BitCast)


def is_countable(task: Task) -> bool:
    """Return True if the host can count the iterations of a task without reading memory."""
    return task.is_parallel and all(isinstance(stmt, _COUNTABLE) for stmt in walk(task.bounds))
