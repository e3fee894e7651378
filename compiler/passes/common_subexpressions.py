"""Computes once what is computed twice: value numbering over the block structure.

    %2: f32 = mul %0, %1                  %2: f32 = mul %0, %1
    if %3 {                               if %3 {
      %4: f32 = mul %1, %0                  store a[%5], %2
      store a[%5], %4                     }
    }                                     %6: f32 = load b[%5]
    %6: f32 = load b[%5]                  // %7 is %6
    %7: f32 = load b[%5]

A value is found again in its block and in blocks nested there, for only there is it visible. A statement that reads
memory (also a local or an adstack) carries the version of what it reads in its key. Invariant: between two executions
with the same key in force, nothing of this iteration wrote there: a write starts a new version for all that follows
in the text, and a loop starts, on entry, new versions of all it writes. Other iterations may write, unordered, at any
time; reading once is one of their orders.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import fields

from ..ir import nodes as n
from ..ir.effects import EFFECTS, Place, all_writes, reads, writes
from ..ir.nodes import ROLES, STATEMENTS, Block, Kernel, Stmt, Value
from ..ir.walk import blocks, results
from .rewrite import Rewriter
from .simplify import COMMUTATIVE


def _is_repeatable(cls: type[Stmt]) -> bool:
    """Whether the result depends on operands and on what is read alone, and nothing else happens."""
    row, roles = EFFECTS[cls], [role for _, role in ROLES[cls]]
    return roles.count("result") == 1 and "block" not in roles and not (row.writes or row.observable or row.jumps)


# What tells two statements of a class apart: all fields but result and place.
_KEYED = {
    cls: tuple(f.name for f in fields(cls) if f.name != "loc" and dict(ROLES[cls]).get(f.name) != "result")
    for cls in STATEMENTS.values()
    if _is_repeatable(cls)
}


def common_subexpressions(kernel: Kernel) -> Kernel:
    """The kernel with repeated values merged; the same object if there are none."""
    return _Merger(kernel).run()


class _Merger(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._available: dict[Hashable, Value] = {}
        self._versions: dict[Place, int] = {}

    def _block(self, block: Block) -> Block:
        """What is first computed in a block is forgotten at its end; keys are never replaced, so the last ones go."""
        known = len(self._available)
        made = super()._block(block)
        while len(self._available) > known:
            self._available.popitem()
        return made

    def enter(self, stmt: Stmt) -> Iterable[Stmt] | None:
        if isinstance(stmt, (n.For, n.While)):
            self._renew(all_writes((stmt,)))
        return None

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        if not blocks(stmt):
            self._renew(writes(stmt))
        if type(stmt) not in _KEYED:
            return None
        value = results(stmt)[0]
        first = self._available.setdefault(self._key(stmt), value)
        return None if first is value else self.rename(value, first)

    def _renew(self, places: Iterable[Place]) -> None:
        for place in places:
            self._versions[place] = self._versions.get(place, 0) + 1

    def _key(self, stmt: Stmt) -> Hashable:
        versions = tuple(self._versions.get(place, 0) for place in reads(stmt))
        return type(stmt), results(stmt)[0].type, versions, self._content(stmt)

    def _content(self, stmt: Stmt) -> Hashable:
        if isinstance(stmt, n.Const):
            return repr(stmt.value)  # tells 0.0 from -0.0, which are equal
        if isinstance(stmt, n.Op) and stmt.op in COMMUTATIVE:
            return stmt.op, tuple(sorted(stmt.args, key=lambda v: v.id))
        return tuple(getattr(stmt, name) for name in _KEYED[type(stmt)])
