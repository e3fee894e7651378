"""unordered_arrays(task): what a parallel task may leave otherwise when its iterations run in another order.

    slot = atomic add count[], 1;  list[slot] = i         count holds the same in every order, list does not

Such a task cannot be repeated: a copy of the state before the launch, on which it runs again, would hold what nobody
has seen. What an atomic returned is read from its record if there is one, see `returned`; then the order is no matter.

Invariant: an array that is not among those found holds the same in every order, but for the rounding of sums and
products.
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir import nodes as n
from ..ir.nodes import Block, Stmt, Task, Value
from ..ir.walk import blocks, operands, results, walk
from ..passes.affine import single_iteration
from ..passes.promote_elements import RECORD

LAST = ("exchange", "cas")
"""Atomics that leave something else in another order, whoever uses what they return."""


def unordered_arrays(task: Task, own: Collection[str]) -> frozenset[str]:
    """Stage structured. own: arrays of which every iteration touches elements of its own alone."""
    if not task.is_parallel or single_iteration(task):
        return frozenset()
    shared = [s for s in walk(task.body) if isinstance(s, n.Atomic) and s.array not in own]
    if not shared:
        return frozenset()
    found = _Taint({s.result for s in shared}, {s.array for s in shared if s.op in LAST})
    while found.grows(task.body):
        pass
    return frozenset(found.arrays)


class _Taint:
    """What depends on the order: values, locals and arrays, through data and through control."""

    def __init__(self, values: set[Value], arrays: set[str]) -> None:
        self.values = values
        self.arrays = arrays
        self.locals: set[str] = set()

    def grows(self, body: Block) -> bool:
        before = self._size()
        self._block(body, False)
        return self._size() > before

    def _size(self) -> int:
        return len(self.values) + len(self.arrays) + len(self.locals)

    def _block(self, block: Block, under: bool) -> None:
        for stmt in block:
            self._stmt(stmt, under)

    def _stmt(self, stmt: Stmt, under: bool) -> None:
        depends = under or self._reads(stmt)
        if depends:
            self.values.update(results(stmt))
            if isinstance(stmt, (n.Set, n.SetElement)):
                self.locals.add(stmt.var)
            elif isinstance(stmt, (n.Store, n.Atomic)) and not stmt.array.startswith(RECORD):
                self.arrays.add(stmt.array)
        for inner in blocks(stmt):
            self._block(inner, depends)

    def _reads(self, stmt: Stmt) -> bool:
        if not self.values.isdisjoint(operands(stmt)):
            return True
        if isinstance(stmt, (n.Get, n.GetElement)):
            return stmt.var in self.locals
        if isinstance(stmt, (n.For, n.While)):
            inside = isinstance(stmt, n.While) and stmt.test in self.values
            return inside or stmt.stop is not None and stmt.stop in self.locals
        return isinstance(stmt, n.Load) and stmt.array in self.arrays
