"""Arrays of which every access in a task is to an element that no other iteration touches: no atomics are needed."""

from __future__ import annotations

from ..ir import nodes as n
from ..ir.nodes import Task
from ..ir.walk import walk
from ..passes.affine import Affine, IndexForms, is_own, same_indices


def own_arrays(task: Task) -> set[str]:
    """Arrays of which every access in a parallel task is to the iteration's own element."""
    if not task.is_parallel:
        return {s.array for s in walk(task.body) if isinstance(s, (n.Load, n.Store, n.Atomic))}
    forms = IndexForms(task)
    tuples: dict[str, list[tuple[Affine, ...]]] = {}
    for stmt in walk(task.body):
        if isinstance(stmt, (n.Load, n.Store, n.Atomic)):
            tuples.setdefault(stmt.array, []).append(tuple(forms.form(v) for v in stmt.indices))
    alike = {a: t for a, t in tuples.items() if all(same_indices(t[0], other) for other in t)}
    return {a for a, found in alike.items() if is_own(found[0], task, forms)}
