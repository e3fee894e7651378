"""Which tasks run over a list of the iterations that pass their gate."""
from __future__ import annotations

from ...compiler.ir.nodes import Task
from ..llvm.masked.selection import Selection, selection


def gate_of(task: Task) -> Selection | None:
    """What a scan can decide of a task, if it is one gate around all that the task does."""
    found = selection(task, linear=True) if task.is_parallel else None
    return found if found is not None and found.gate is not None else None
