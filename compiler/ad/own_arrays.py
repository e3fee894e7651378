"""This module finds the arrays of which each iteration touches own elements only, so that no atomics are needed."""

from __future__ import annotations

from ..analysis.affine import Affine, IndexForms, is_own, same_indices
from ..ir.kernels import Task
from ..ir.roles import ACCESSES
from ..ir.walk import walk


def own_arrays(task: Task) -> set[str]:
    """Return the arrays in which each iteration of the task touches own elements only.

    The one iteration of a serial task owns all elements.
    """
    if not task.is_parallel:
        return {s.array for s in walk(task.body) if isinstance(s, ACCESSES)}
    forms = IndexForms(task)
    tuples: dict[str, list[tuple[Affine, ...]]] = {}
    for stmt in walk(task.body):
        if isinstance(stmt, ACCESSES):
            tuples.setdefault(stmt.array, []).append(tuple(forms.form(v) for v in stmt.indices))
    alike = {a: t for a, t in tuples.items() if all(same_indices(t[0], other) for other in t)}
    return {a for a, found in alike.items() if is_own(found[0], task, forms)}
