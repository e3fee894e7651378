"""This module finds updates of one element by all iterations of a task, which GPU threads can sum up privately.

    for i: loss[None] += f(x[i])      →      own = 0; for i of the thread: own += f(x[i]); then: loss[None] += sum

holds of add, min and max where the index is fixed by the launch (constants, arguments, extents), nothing reads the old
value, and the task does nothing else to the array than updates by the same operation. The neutral element of real sums
is -0.0, so that a sum over no updates changes nothing, not even the sign of a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...compiler.analysis.affine import Affine, IndexForms, surely_differ
from ...compiler.analysis.index_facts import IndexFacts
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import used_values, walk, walk_task
from ..base import Options
from . import ir
from .index_forms import value_of
from .types import I64, const

REDUCED = ("add", "min", "max")


Forms = tuple[tuple[Affine, Scalar], ...]
"""Forms of the indices of an update, each with the type of the index."""


@dataclass(frozen=True)
class ElementSum:
    """Represent atomic updates of one element by all iterations, which each thread combines and then applies once.

    Attributes:
        op: Name of the operation.
        array: Name of the array.
        dtype: Type of the element.
        forms: Affine forms of the indices.
        updates: The atomic statements that make the updates.
    """

    op: str
    array: str
    dtype: Scalar
    forms: Forms
    updates: tuple[n.Atomic, ...]


def element_sums(task: Task, options: Options) -> tuple[ElementSum, ...]:
    """Return the updates that the threads of a task can accumulate privately; debug builds have none."""
    # A debug build compares every index in its turn, so threads keep no updates.
    if not task.is_parallel or options.debug:
        return ()
    inside = list(walk_task(task))
    forms, used, facts = IndexForms(task), used_values(inside), IndexFacts(task)
    others = {s.array for s in inside if isinstance(s, (n.Load, n.Store))}
    found: dict[tuple[str, str, Forms], list[n.Atomic]] = {}
    every: list[tuple[str, str, Forms]] = []
    for stmt in walk(task.body):
        if isinstance(stmt, n.Atomic):
            key = stmt.op, stmt.array, tuple((forms.form(v), v.type) for v in stmt.indices)
            every.append(key)
            exact = all(map(facts.widens_exactly, stmt.indices))
            if exact and _suits(stmt.op, stmt.value.type) and stmt.result not in used and _is_fixed(key[2]):
                found.setdefault(key, []).append(stmt)
    return tuple(
        ElementSum(*key[:2], updates[0].value.type, key[2], tuple(updates))
        for key, updates in found.items()
        if key[1] not in others and all(_commute(key, other) for other in every)
    )


def _commute(a: tuple[str, str, Forms], b: tuple[str, str, Forms]) -> bool:
    """Return True if two updates commute: they use the same operation on one array, or touch different elements."""
    return a[:2] == b[:2] or a[1] != b[1] or any(surely_differ(p, q) for (p, _), (q, _) in zip(a[2], b[2]))


def _suits(op: str, t: Scalar) -> bool:
    """Return True if threads can combine updates by the operation `op` on values of this type privately."""
    return op in REDUCED and t.bits in (32, 64)


def _is_fixed(forms: Forms) -> bool:
    """Return True if the indices are the same for all iterations of a launch: constants, arguments, extents."""
    return all(isinstance(s, tuple) for form, _ in forms for s in form.symbols())


def neutral_element(op: str, t: Scalar) -> float | int:
    """Return the number with which an atomic `op` leaves an element unchanged, such as 0 for an addition."""
    if op == "add":
        return -0.0 if t.is_real else 0
    if t.is_real:
        return math.inf if op == "min" else -math.inf
    low, high = t.limits
    return high if op == "min" else low


def check_element(
    e: Any, s: ElementSum, trap_if: Callable[[ir.LLVMValue, int, ir.LLVMValue, ir.LLVMValue], None]
) -> None:
    """Emit a check that ends the launch if the element of the sum lies outside of its array.

    Args:
        e: Emitter of this generator, or an object with its methods.
        s: Sum whose element is checked.
        trap_if: Ends the launch where a condition holds.
    """
    if s.array in e.m.layout.temps or not e.m.options.bounds:
        return
    for axis, (form, t) in enumerate(s.forms):
        index = e.to_i64(e.from_i64(value_of(e, form), t), t)
        extent = e.slot(e.m.layout.arrays[s.array].shape_at + 8 * axis)
        outside = e.b.icmp_unsigned(">=", index, extent)
        trap_if(outside, e.m.site("index", e.task, s.updates[0], axis), index, extent)


def linear_index(e: Any, s: ElementSum) -> ir.LLVMValue:
    """Emit the row-major number of the sum's element in its array and return the number.

    Args:
        e: Emitter of this generator, or an object with its methods.
        s: Sum of the element.
    """
    array, b = e.m.layout.arrays[s.array], e.b
    linear: ir.LLVMValue = const(I64, 0)
    for axis, (form, t) in enumerate(s.forms):
        index = e.to_i64(e.from_i64(value_of(e, form), t), t)
        linear = b.add(b.mul(linear, e.slot(array.shape_at + 8 * axis)), index) if axis else index
    return linear
