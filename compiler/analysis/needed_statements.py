"""This module marks the statements on which the effects or live values of a block depend; others are dead code.

Marks start at observable statements (stores to arrays, asserts, prints, draws, returns) and spread to the statements on
which these depend: those that define operands, those that write memory which is read, those that enclose a marked one,
and the jumps of a marked loop. Cycles
through locals, stacks and temporaries that feed only themselves are never reached.

Invariant: occurrences are marked, never nodes, because equal statements may stand in several places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from ..ir import nodes as n
from ..ir.effects import EFFECTS, EffectPlace, reads, writes
from ..ir.roles import LOOP_JUMPS, LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import NESTED, OPERANDS, RESULTS, blocks, kept_block, map_blocks, operands, replace_fields

FRAMES = frozenset({n.For, n.While, n.Scope})
# Properties that are tested for every statement are looked up once for each class.
JUMPS = frozenset(cls for cls in EFFECTS if EFFECTS[cls].jumps)
FLOW = NESTED | JUMPS | {n.Get}
"""These statements decide which locals are live: after one of them is removed, another store may be dead."""
_PINNED = frozenset(cls for cls in EFFECTS if EFFECTS[cls].observable) | {n.Return}
_DECLARE = frozenset(cls for cls in EFFECTS if EFFECTS[cls].declares)
_WRITE = frozenset(cls for cls in EFFECTS if EFFECTS[cls].writes)
_ORDERED = frozenset(cls for cls in EFFECTS if EFFECTS[cls].reads) | _WRITE | FRAMES


_SPECIAL = _PINNED | _WRITE | NESTED | JUMPS
"""Statements of these classes need more entries than those for the values that they define."""


class NeededMarker:
    """Mark the statements of some blocks that are needed for observable effects or for values used elsewhere.

    An occurrence of a statement is represented by a number, in order of entry. Its properties are kept in lists,
    because objects for all occurrences would cost more than the rest. Values are stored by their ids. Invariant of
    `spread`: everything that a marked occurrence needs in order to do the same as before is marked.

    Args:
        private: locals, adstacks and temporaries that are declared elsewhere and that only these blocks use.

    Attributes:
        flow_cut: True if `rebuild` left out a statement with blocks, a jump or a `get`, so that liveness may have
            changed.
    """

    def __init__(self, private: Collection[EffectPlace]) -> None:
        self._private = set(private)
        self._stmts: list[Stmt] = []
        self._parents: list[int] = []
        self._children: dict[int, list[list[int]]] = {}
        self._jumps: defaultdict[int, list[int]] = defaultdict(list)
        self._defs: dict[int, int] = {}
        self._writers: defaultdict[EffectPlace, list[int]] = defaultdict(list)
        self._declarers: defaultdict[EffectPlace, list[int]] = defaultdict(list)
        self._seen: set[tuple[bool, EffectPlace]] = set()
        self._roots: list[int] = []
        self._marked: list[int] = []
        self._is_marked = bytearray()
        self._live: set[Value] = set()
        self._used: set[Value] | None = None
        self.flow_cut = False

    def enter(self, block: Block, parent: int = -1, frames: tuple[int, ...] = ()) -> list[int]:
        """Register the statements of a block, and return the number under which each of them is registered.

        Statements after a jump in a nested block are left out.

        Args:
            block: statements to register.
            parent: occurrence of the statement around the block, -1 for none.
            frames: occurrences of the enclosing loops and scopes, innermost last.
        """
        stmts, parents, defs, found = self._stmts, self._parents, self._defs, []
        for stmt in block:
            cls = type(stmt)
            at = len(stmts)
            stmts.append(stmt)
            parents.append(parent)
            found.append(at)
            for value in RESULTS[cls](stmt):
                defs[value.id] = at
            if cls in _SPECIAL:
                self._register(at, stmt, frames)
                if cls in JUMPS and parent >= 0:
                    self.flow_cut |= len(found) < len(block)
                    break
        return found

    def _register(self, at: int, stmt: Stmt, frames: tuple[int, ...]) -> None:
        """Record the locals and arrays that a statement writes, its nested blocks, and the loop that it leaves.

        A jump stays if its loop stays; a jump whose loop is outside the entered blocks always stays.
        """
        cls = type(stmt)
        if cls in _WRITE:
            for place in writes(stmt):
                self._writers[place].append(at)
                if cls in _DECLARE:
                    self._declarers[place].append(at)
        if cls in _PINNED:
            self._roots.append(at)
        elif cls in NESTED:
            inside = (*frames, at) if cls in FRAMES else frames
            self._children[at] = [self.enter(inner, at, inside) for inner in blocks(stmt)]
        elif isinstance(stmt, LOOP_JUMPS):
            if stmt.depth <= len(frames):
                self._jumps[frames[-stmt.depth]].append(at)
            else:
                self._roots.append(at)

    def spread(self, live_values: Iterable[Value]) -> None:
        """Mark the statements that have effects or define `live_values`, and all that these statements depend on.

        Args:
            live_values: values that are read outside the entered blocks.
        """
        self._live = set(live_values)
        self._is_marked = bytearray(len(self._stmts))
        self._mark(self._roots)
        # Values that are read outside must be computed.
        self._mark([self._defs[v.id] for v in self._live if v.id in self._defs])
        for place, writers in self._writers.items():
            # A place that is declared elsewhere may be read there, so every write to it counts.
            if place not in self._private and place not in self._declarers:
                self._mark(writers)
        stmts, is_marked, defs, marked = self._stmts, self._is_marked, self._defs, self._marked
        # The list grows while marks spread.
        for at in marked:
            stmt = stmts[at]
            cls = type(stmt)
            for value in OPERANDS[cls](stmt):
                made = defs.get(value.id)
                if made is not None and not is_marked[made]:
                    is_marked[made] = 1
                    marked.append(made)
            parent = self._parents[at]
            if parent >= 0 and not is_marked[parent]:
                self._mark((parent,))
            if cls in _ORDERED:
                self._follow(at, stmt)

    def _mark(self, found: Iterable[int]) -> None:
        for at in found:
            if not self._is_marked[at]:
                self._is_marked[at] = 1
                self._marked.append(at)

    def _follow(self, at: int, stmt: Stmt) -> None:
        """Mark the statements that a marked statement needs: writers, declarations and jumps.

        A place that another marked statement reads or writes has been followed before, and is skipped.
        """
        for place in reads(stmt):
            if (False, place) not in self._seen:
                self._seen.add((False, place))
                self._mark(self._writers.get(place, ()))
        for place in writes(stmt):
            if (True, place) not in self._seen:
                self._seen.add((True, place))
                self._mark(self._declarers.get(place, ()))
        if at in self._jumps:
            self._mark(self._jumps[at])

    def rebuild(self, found: list[int], block: Block) -> Block:
        """Return the block with only the marked occurrences, or the same object if all are marked.

        Args:
            found: occurrences of the block, as `enter` returned them.
            block: the block itself.
        """
        made: list[Stmt] = []
        for at in found:
            stmt = self._stmts[at]
            if self._is_marked[at]:
                made.append(self._rebuild_stmt(at, stmt) if at in self._children else stmt)
            elif type(stmt) in FLOW:
                self.flow_cut = True
        return kept_block(block, made)

    def _rebuild_stmt(self, at: int, stmt: Stmt) -> Stmt:
        inner = iter(self._children[at])
        stmt = map_blocks(stmt, lambda block: self.rebuild(next(inner), block))
        if isinstance(stmt, LOOPS) and stmt.trips and not self._is_used(stmt.trips):
            return replace_fields(stmt, trips=None)
        return stmt

    def _is_used(self, value: Value) -> bool:
        """Return True if a marked statement reads the value.

        The set of used values is computed on demand, because only trip counts are asked about and few kernels have any.
        """
        if self._used is None:
            self._used = self._live.union(*(operands(self._stmts[at]) for at in self._marked))
        return value in self._used
