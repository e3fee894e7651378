"""This module finds the tasks whose iterations the host can count before a launch."""

from __future__ import annotations

from ...compiler.ir.kernels import Task
from ...compiler.ir.roles import VALUES
from ...compiler.ir.walk import walk


def is_countable(task: Task) -> bool:
    """Return True if the host can count the iterations of a task without reading memory."""
    return task.is_parallel and all(isinstance(stmt, VALUES) for stmt in walk(task.bounds))
