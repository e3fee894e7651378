"""Find the arrays whose contents after a parallel task depend on the order of its iterations.

    slot = atomic add count[], 1;  list[slot] = i         count holds the same in every order, list does not

A tape cannot repeat such a task: on a copy of the state before the launch, the task would leave values that no kernel
has seen. If an array records the results of an atomic, see `ordered_updates`, the order of the iterations is known.

Invariant: an array that is not in the result holds the same in every order, except for the rounding of sums and
products.
"""

from __future__ import annotations

from collections.abc import Collection

from ..analysis.affine import single_iteration
from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.roles import ARRAY_WRITES, LOCAL_READS, LOCAL_WRITES, LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import blocks, operands, results, walk
from ..passes.promote_elements import RECORD

LAST = ("exchange", "cas")
"""Atomics that leave another content in another order, even if nothing uses what they return."""


def unordered_arrays(task: Task, own: Collection[str]) -> frozenset[str]:
    """Return the arrays whose contents after a task of stage structured depend on the order of its iterations.

    Args:
        task: The task.
        own: The arrays in which every iteration touches own elements only.
    """
    if not task.is_parallel or single_iteration(task):
        return frozenset()
    shared = [s for s in walk(task.body) if isinstance(s, n.Atomic) and s.array not in own]
    if not shared:
        return frozenset()
    found = _OrderTaint({s.result for s in shared}, {s.array for s in shared if s.op in LAST})
    while found.grows(task.body):
        pass
    return frozenset(found.arrays)


class _OrderTaint:
    """Collect the values, locals and arrays of a task that depend on its iteration order, by data or control flow."""

    def __init__(self, values: set[Value], arrays: set[str]) -> None:
        self.values = values
        self.arrays = arrays
        self.locals: set[str] = set()

    def grows(self, body: Block) -> bool:
        """Visit the body once; return True if this found more values, locals or arrays that depend on the order."""
        before = self._size()
        self._block(body, False)
        return self._size() > before

    def _size(self) -> int:
        return len(self.values) + len(self.arrays) + len(self.locals)

    def _block(self, block: Block, under: bool) -> None:
        for stmt in block:
            self._stmt(stmt, under)

    def _stmt(self, stmt: Stmt, under: bool) -> None:
        """Record results and writes of a statement as order-dependent if its operands or its execution are so.

        Args:
            stmt: The statement.
            under: True if the order decides whether, or how often, the statement runs.
        """
        depends = under or self._reads(stmt)
        if depends:
            self.values.update(results(stmt))
            if isinstance(stmt, LOCAL_WRITES):
                self.locals.add(stmt.var)
            # A record holds what this launch did, and a repetition reads it instead of the atomic.
            elif isinstance(stmt, ARRAY_WRITES) and not stmt.array.startswith(RECORD):
                self.arrays.add(stmt.array)
        for inner in blocks(stmt):
            self._block(inner, depends)

    def _reads(self, stmt: Stmt) -> bool:
        """Return True if the statement reads a value, local or array that depends on the iteration order."""
        if not self.values.isdisjoint(operands(stmt)):
            return True
        if isinstance(stmt, LOCAL_READS):
            return stmt.var in self.locals
        if isinstance(stmt, LOOPS):
            inside = isinstance(stmt, n.While) and stmt.test in self.values
            return inside or stmt.stop is not None and stmt.stop in self.locals
        return isinstance(stmt, n.Load) and stmt.array in self.arrays
