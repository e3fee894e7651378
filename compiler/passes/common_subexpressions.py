"""This pass merges repeated computations of the same value, by value numbering over the block structure.

    %2: f32 = mul %0, %1                  %2: f32 = mul %0, %1
    if %3 {                               if %3 {
      %4: f32 = mul %1, %0                  store a[%5], %2
      store a[%5], %4                     }
    }                                     %6: f32 = load b[%5]
    %6: f32 = load b[%5]                  // %7 is %6
    %7: f32 = load b[%5]

A value is reused in its block and in blocks nested there, because it is visible only there. The key of a statement that
reads memory (also a local or an adstack) contains the version of the memory that it reads. Invariant: between two
executions with the same key, this iteration wrote nothing to that memory. A write therefore starts a new version for
everything after it in the text, and a loop starts, on entry, new versions of everything that it writes. Other
iterations may write at any time, unordered; reading only once is one of the orders they allow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from ..ir import nodes as n
from ..ir.effects import EFFECTS, EffectPlace, all_writes, reads, writes
from ..ir.kernels import Kernel
from ..ir.nodes import ROLES, STATEMENTS
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import NESTED
from .rewrite import Rewriter
from .simplify import COMMUTATIVE


def _is_repeatable(cls: type[Stmt]) -> bool:
    """Return True if a statement class computes one value from operands and memory reads, without side effects."""
    row, roles = EFFECTS[cls], [role for _, role in ROLES[cls]]
    return roles.count("result") == 1 and "block" not in roles and not (row.writes or row.observable or row.jumps)


def _content(cls: type[Stmt]) -> Callable[[Any], Hashable]:
    """Return a function from a statement of this class to a key of all its attributes but result and location."""
    if cls is n.Const:
        # The text distinguishes 0.0 from -0.0, which compare equal.
        return lambda stmt: repr(stmt.value)
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
    """Return the kernel with repeated values merged, or the same object if no value is repeated."""
    return _Merger(kernel).run()


class _Merger(Rewriter):
    """This rewriter replaces each repeated value by its first occurrence."""

    ENTERED = frozenset(LOOPS)
    LEFT = frozenset(_CONTENT) | _WRITING

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._available: dict[Hashable, Value] = {}
        self._versions: dict[EffectPlace, int] = {}

    def _block(self, block: Block) -> Block:
        """Rewrite a block and forget at its end the values that were first computed in it.

        No entry of the dictionary of available values is ever replaced, so its newest entries are those of the block.
        """
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

    def _renew(self, places: Iterable[EffectPlace]) -> None:
        """Mark memory as changed, so that a value read from it before is not merged with a later read."""
        for place in places:
            self._versions[place] = self._versions.get(place, 0) + 1

    def _key(self, stmt: Stmt, value: Value) -> Hashable:
        """Return the value-numbering key of a statement: equal keys mean equal values.

        The key contains the name of the type instead of the type, because a name hashes faster.
        """
        cls, read = type(stmt), reads(stmt)
        versions = tuple([self._versions.get(place, 0) for place in read]) if read else ()
        return cls, value.type.name, versions, _CONTENT[cls](stmt)
