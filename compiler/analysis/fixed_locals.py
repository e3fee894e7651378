"""This module finds the locals that have one value wherever they are read, so that no memory need hold them.

    local v           v is set once, and read only below that, in the block of the `set` or deeper inside it
    set v, %1         a read gives %1
    %2 = get v
    if %3 {
      %4 = get v      likewise
    }

Inlined functions leave thousands of such locals. A compiler of machine code finds them too, but in time that grows with
the number of locals times the number of branches.
"""

from __future__ import annotations

from ..ir import nodes as n
from ..ir.effects import reads, writes
from ..ir.statement import Block
from ..ir.walk import blocks, walk

LOCAL = "local"
"""Space of the places of locals in the table of effects."""


def fixed_locals(body: Block) -> frozenset[str]:
    """Return the scalar locals that are set once in a block or in one inside it, above each read."""
    return _FixedLocals(body).found()


class _FixedLocals:
    """Walk a block in the order of its text, and find the locals that have one value wherever they are read.

    Attributes:
        body: the block to walk.
        counts: number of places at which each local is set.
        others: locals that a statement other than `local`, `set` and `get` uses.
        valid: locals whose `set` has been passed, in a block that has not ended.
        refused: locals that are declared again, or read where they may hold something else.
    """

    def __init__(self, body: Block) -> None:
        self.body = body
        self.counts: dict[str, int] = {}
        self.others: set[str] = set()
        self.valid: set[str] = set()
        self.refused: set[str] = set()

    def found(self) -> frozenset[str]:
        """Return the locals that have one value wherever they are read."""
        for stmt in walk(self.body):
            if isinstance(stmt, n.Set):
                self.counts[stmt.var] = self.counts.get(stmt.var, 0) + 1
            elif not isinstance(stmt, (n.Local, n.Get)):
                self.others.update(name for space, name in (*reads(stmt), *writes(stmt)) if space == LOCAL)
        self._block(self.body)
        once = {name for name, count in self.counts.items() if count == 1}
        return frozenset(once - self.others - self.refused)

    def _block(self, block: Block) -> None:
        """Visit the statements of a block; the values that it assigns to locals are valid until its end."""
        passed: list[str] = []
        for stmt in block:
            if isinstance(stmt, n.Set):
                self.valid.add(stmt.var)
                passed.append(stmt.var)
            elif isinstance(stmt, n.Get):
                if stmt.var not in self.valid:
                    self.refused.add(stmt.var)
            elif isinstance(stmt, n.Local):
                if stmt.var in self.valid:
                    self.refused.add(stmt.var)
            else:
                for inner in blocks(stmt):
                    self._block(inner)
        self.valid.difference_update(passed)
