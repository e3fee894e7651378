"""This module finds the statements of a task that Metal cannot run: those with f64 and most 64-bit atomics.

A kernel with f64 is refused. A kernel with such atomics has the tasks that need them done by one thread each.
"""

from __future__ import annotations

from ..compiler.ir.kernels import Task
from ..compiler.ir.nodes import Atomic, LocalArray
from ..compiler.ir.statement import Stmt
from ..compiler.ir.types import f64
from ..compiler.ir.walk import results, used_values, walk_task
from .codegen.sharing import share

_HALVES = frozenset({"add", "bit_and", "bit_or", "bit_xor"})
"""Operations on 64 bits that fall into two on 32 bits where nobody reads the old value (accesses.py)."""

FLOAT64 = "Metal has no f64"
FLOAT64_CURE = "use f32, or the cpu backend"
FLOAT64_EXAMPLE = "kernel k(x: f64[1]) { serial { %0: i32 = const 0 %1: f64 = load x[%0] } }"


def find_float64(task: Task) -> Stmt | None:
    """Return the first statement of a task whose result is an f64, or None if there is none."""
    for stmt in walk_task(task):
        if any(value.type == f64 for value in results(stmt)):
            return stmt
        if isinstance(stmt, LocalArray) and stmt.dtype == f64:
            return stmt
    return None


def find_wide_atomic(task: Task) -> Stmt | None:
    """Return the first 64-bit atomic of a task that Metal cannot do with its own atomics, or None if there is none.

    Atomics count whose iterations may meet in an element, and which neither fall into halves nor count depths of
    adstacks.
    """
    atomics = [s for s in walk_task(task) if isinstance(s, Atomic) and s.value.type.is_int and s.value.type.bits == 64]
    if not task.is_parallel or not atomics:
        return None
    used = used_values(walk_task(task)) | {*task.begin, *task.end}
    plain = share(task, 2, False).plain
    return next((s for s in atomics if s.array not in plain and (s.result in used or not _is_had(s))), None)


def _is_had(stmt: Atomic) -> bool:
    """Return True if Metal can do this 64-bit atomic update, as it can only if nothing reads the old value."""
    # Depths of adstacks, whose names begin with $, are compared without a sign, because none is negative.
    return stmt.op in _HALVES or (stmt.op == "max" and stmt.array.startswith("$"))
