"""Marks what a block needs: the half of dead code that ignores order.

Marks start at what is observable (stores to arrays, asserts, prints, draws, returns) and spread to what that needs:
operands, everything that writes a place read, enclosing statements, the jumps of a loop that stays. Cycles through
locals, stacks and temporaries that feed only themselves are never reached.

Invariant: occurrences are marked, never nodes, for equal statements may stand in several places.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from ..ir import nodes as n
from ..ir.effects import EFFECTS, Place, reads, writes
from ..ir.nodes import Block, Stmt, Value
from ..ir.walk import NESTED, OPERANDS, RESULTS, blocks, changed, kept_block, map_blocks, operands

Keep = Callable[[Stmt], bool]
FRAMES = frozenset({n.For, n.While, n.Scope})
# What is asked of every statement is looked up once.
JUMPS = frozenset(cls for cls in EFFECTS if EFFECTS[cls].jumps)
FLOW = NESTED | JUMPS | {n.Get}
"""What decides which locals are live: after any of these went, another store may be dead."""
_PINNED = frozenset(cls for cls in EFFECTS if EFFECTS[cls].observable) | {n.Return}
_DECLARE = frozenset(cls for cls in EFFECTS if EFFECTS[cls].declares)
_WRITE = frozenset(cls for cls in EFFECTS if EFFECTS[cls].writes)
_READ = frozenset(cls for cls in EFFECTS if EFFECTS[cls].reads)


class Occurrence:
    """A statement at one position. children: occurrences of each nested block; jumps: those that aim at it."""

    __slots__ = ("stmt", "parent", "children", "jumps", "needed")

    def __init__(self, stmt: Stmt, parent: Occurrence | None) -> None:
        self.stmt = stmt
        self.parent = parent
        self.children: list[list[Occurrence]] = []
        self.jumps: list[Occurrence] = []
        self.needed = False


class Marking:
    """The occurrences of some blocks, and the marks that spread over them.

    Invariant of `spread`: whatever a marked occurrence needs in order to do the same as before is marked.
    `flow_cut`: whether `rebuild` left out something of FLOW.
    """

    def __init__(self, keep: Keep | None, private: Collection[Place]) -> None:
        self._keep = keep
        self._private = set(private)
        self._defs: dict[Value, Occurrence] = {}
        self._writers: defaultdict[Place, list[Occurrence]] = defaultdict(list)
        self._declarers: defaultdict[Place, list[Occurrence]] = defaultdict(list)
        self._read: set[Place] = set()
        self._written: set[Place] = set()
        self._live: set[Value] = set()
        self._needed: list[Occurrence] = []
        self._used: set[Value] | None = None
        self.flow_cut = False

    def enter(self, block: Block, parent: Occurrence | None = None,
              frames: tuple[Occurrence, ...] = ()) -> list[Occurrence]:  # fmt: skip
        """Register the statements of a block; what follows a jump in a nested block is left out."""
        found = []
        for stmt in block:
            cls = type(stmt)
            at = Occurrence(stmt, parent)
            found.append(at)
            for value in RESULTS[cls](stmt):
                self._defs[value] = at
            if cls in _WRITE:
                self._register_writes(at)
            if cls in _PINNED or self._keep and self._keep(stmt):
                self._need(at)
            if cls in NESTED:
                inside = (*frames, at) if cls in FRAMES else frames
                at.children = [self.enter(inner, at, inside) for inner in blocks(stmt)]
            elif cls in JUMPS:
                self._register_jump(at, frames)
                if parent:
                    self.flow_cut |= len(found) < len(block)
                    break
        return found

    def _register_writes(self, at: Occurrence) -> None:
        declares = type(at.stmt) in _DECLARE
        for place in writes(at.stmt):
            self._writers[place].append(at)
            if declares:
                self._declarers[place].append(at)

    def _register_jump(self, at: Occurrence, frames: tuple[Occurrence, ...]) -> None:
        """A jump stays if its loop stays; one whose loop is not here stays for sure."""
        if isinstance(at.stmt, (n.Break, n.Continue)) and at.stmt.depth <= len(frames):
            frames[-at.stmt.depth].jumps.append(at)
        else:
            self._need(at)

    def spread(self, live_values: Iterable[Value]) -> None:
        """Mark the roots and all that they need."""
        self._live = set(live_values)
        for value in self._live:
            if value in self._defs:
                self._need(self._defs[value])
        for place, writers in self._writers.items():
            if place not in self._private and place not in self._declarers:
                self._need_all(writers)
        for at in self._needed:  # grows as marks spread
            self._follow(at)

    def _need(self, at: Occurrence) -> None:
        if not at.needed:
            at.needed = True
            self._needed.append(at)

    def _need_all(self, found: Iterable[Occurrence]) -> None:
        for at in found:
            if not at.needed:
                at.needed = True
                self._needed.append(at)

    def _follow(self, at: Occurrence) -> None:
        """A place once read or written needs no second look."""
        cls = type(at.stmt)
        for value in OPERANDS[cls](at.stmt):
            made = self._defs.get(value)
            if made is not None and not made.needed:
                made.needed = True
                self._needed.append(made)
        if cls in _READ:
            for place in reads(at.stmt):
                if place not in self._read:
                    self._read.add(place)
                    self._need_all(self._writers.get(place, ()))
        if cls in _WRITE:
            for place in writes(at.stmt):
                if place not in self._written:
                    self._written.add(place)
                    self._need_all(self._declarers.get(place, ()))
        if at.jumps:
            self._need_all(at.jumps)
        if at.parent and not at.parent.needed:
            self._need(at.parent)

    def rebuild(self, found: list[Occurrence], block: Block) -> Block:
        """The block with the marked occurrences alone; the same object if all are marked."""
        made: list[Stmt] = []
        for at in found:
            if at.needed:
                made.append(self._rebuild_stmt(at) if at.children else at.stmt)
            elif type(at.stmt) in FLOW:
                self.flow_cut = True
        return kept_block(block, made)

    def _rebuild_stmt(self, at: Occurrence) -> Stmt:
        inner: Iterator[list[Occurrence]] = iter(at.children)
        stmt = map_blocks(at.stmt, lambda block: self.rebuild(next(inner), block))
        if isinstance(stmt, (n.For, n.While)) and stmt.trips and not self._is_used(stmt.trips):
            return changed(stmt, trips=None)
        return stmt

    def _is_used(self, value: Value) -> bool:
        """Whether anything that stays reads the value; only trip counts are asked about, and few kernels have any."""
        if self._used is None:
            self._used = self._live.union(*(operands(at.stmt) for at in self._needed))
        return value in self._used
