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

from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from ..ir import nodes as n
from ..ir.effects import EFFECTS, Place, all_writes, reads, writes
from ..ir.nodes import ROLES, STATEMENTS, Block, Kernel, Stmt, Value
from ..ir.walk import NESTED
from .rewrite import Rewriter
from .simplify import COMMUTATIVE


def _is_repeatable(cls: type[Stmt]) -> bool:
    """Whether the result depends on operands and on what is read alone, and nothing else happens."""
    row, roles = EFFECTS[cls], [role for _, role in ROLES[cls]]
    return roles.count("result") == 1 and "block" not in roles and not (row.writes or row.observable or row.jumps)


def _content(cls: type[Stmt]) -> Callable[[Any], Hashable]:
    """What tells two statements of a class apart: all fields but result and place."""
    if cls is n.Const:
        return lambda stmt: repr(stmt.value)  # tells 0.0 from -0.0, which are equal
    if cls is n.Op:
        return _operation
    names = [f.name for f in fields(cls) if f.name != "loc" and dict(ROLES[cls]).get(f.name) != "result"]
    return attrgetter(*names) if names else lambda stmt: ()


def _operation(stmt: n.Op) -> Hashable:
    return stmt.op, tuple(sorted(stmt.args, key=_id)) if stmt.op in COMMUTATIVE else stmt.args


_id = attrgetter("id")
_CONTENT = {cls: _content(cls) for cls in STATEMENTS.values() if _is_repeatable(cls)}
_WRITING = frozenset(cls for cls in STATEMENTS.values() if EFFECTS[cls].writes) - NESTED


def common_subexpressions(kernel: Kernel) -> Kernel:
    """The kernel with repeated values merged; the same object if there are none."""
    return _Merger(kernel).run()


class _Merger(Rewriter):
    ENTERED = frozenset({n.For, n.While})
    LEFT = frozenset(_CONTENT) | _WRITING

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
        self._renew(all_writes((stmt,)))
        return None

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        if type(stmt) in _WRITING:
            self._renew(writes(stmt))
            return None
        value: Value = stmt.result  # type: ignore[attr-defined]
        first = self._available.setdefault(self._key(stmt, value), value)
        return None if first is value else self.rename(value, first)

    def _renew(self, places: Iterable[Place]) -> None:
        for place in places:
            self._versions[place] = self._versions.get(place, 0) + 1

    def _key(self, stmt: Stmt, value: Value) -> Hashable:
        """The type goes by name, which is quicker to hash."""
        cls, read = type(stmt), reads(stmt)
        versions = tuple([self._versions.get(place, 0) for place in read]) if read else ()
        return cls, value.type.name, versions, _CONTENT[cls](stmt)
