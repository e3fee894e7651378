"""This module finds the real values that decide a branch, a loop, an index, or the winner of an atomic min or max.

A kernel, its gradient and its counting kernel each compute these values for themselves and must agree to the last bit.
If a product were fused into a sum in only one of them, trip counts, depths of adstacks and winners would differ. A
backend may therefore contract all values except these.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import nodes as n
from ..ir.effects import EffectPlace, reads, writes
from ..ir.kernels import Kernel
from ..ir.statement import Stmt, Value
from ..ir.walk import operands, results, walk_kernel

CONTROL = (n.If, n.For, n.While)


def decisive_values(kernel: Kernel) -> frozenset[Value]:
    """Return the real values whose last bit may decide control flow, an index or the winner of a min or max."""
    made: dict[Value, Stmt] = {}
    written: dict[EffectPlace, list[Value]] = {}
    pending: list[Value] = []
    for stmt in walk_kernel(kernel):
        made.update((v, stmt) for v in results(stmt))
        pending += _roots(stmt)
        content = getattr(stmt, "value", None)
        if isinstance(content, Value):
            for place in writes(stmt):
                written.setdefault(place, []).append(content)
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        stmt = made.get(value, n.Return())
        if not isinstance(stmt, CONTROL):
            pending += operands(stmt)
            # All that a place may hold is pending after its first read; a kernel reads some places thousands of times.
            for place in reads(stmt):
                pending += written.pop(place, ())
    return frozenset(v for v in found if v.type.is_real)


def _roots(stmt: Stmt) -> Iterator[Value]:
    """Yield the operands of a statement by which it decides control flow, an index or the winner of a min or max."""
    if isinstance(stmt, CONTROL):
        yield from operands(stmt)
        return
    yield from getattr(stmt, "indices", ())
    if isinstance(stmt, (n.GetElement, n.SetElement)):
        yield stmt.index
    if isinstance(stmt, n.Atomic) and stmt.op in ("min", "max"):
        yield stmt.value
    if isinstance(stmt, n.Atomic) and stmt.expected is not None:
        yield from (stmt.value, stmt.expected)
