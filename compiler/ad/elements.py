"""Reads of locals that the reverse sweep may repeat, instead of having their results saved.

*Lasting* reads: a local array declared at the root of a task lives through both sweeps, and the reverse sweep finds it
as the forward sweep left it. A read may be repeated anywhere if no write to the array can follow it: later in the
text, or in a later trip of a common loop.

*Undone* writes: where the reverse sweep puts back what a write replaced, it finds at each point what the forward sweep
had there. A read may be repeated at the reverse of a later statement if nothing between the two writes the array, nor
the statement itself, which is reversed as a whole first. Restoring costs one saved element for each write that can
follow such a read, and the path to it must be reversed even if nothing on it is active.

The adstack of a variable in the classic lowering is such a place too: each set pushes, and its reverse pops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..ir import nodes as n
from ..ir.nodes import Value
from .structure import Occurrence, Path, Structure, comes_after, common_block

Place = tuple[Path, int]


class Elements:
    """Lookups over the reads and writes of locals in one task."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.reads: dict[Value, Occurrence] = {}
        self.writes: dict[str, list[Occurrence]] = {}
        for o in structure.occurrences():
            if isinstance(o.stmt, (n.Get, n.GetElement)):
                self.reads[o.stmt.result] = o
            elif isinstance(o.stmt, (n.Set, n.SetElement)):
                self.writes.setdefault(o.stmt.var, []).append(o)
        at_root = {var for var, path in structure.declared.items() if path == ()}
        elements = {v: o for v, o in self.reads.items() if isinstance(o.stmt, n.GetElement) and o.stmt.var in at_root}
        self.lasting = {v for v, read in elements.items() if not self._overwritten(read)}
        fixed = {var for var, writes in self.writes.items() if any(_in_condition(w) for w in writes)}
        self.other = {v for v in elements if v not in self.lasting and self.variable(v) not in fixed}

    def variable(self, value: Value) -> str:
        """What a read reads."""
        stmt = self.reads[value].stmt
        assert isinstance(stmt, (n.Get, n.GetElement))
        return stmt.var

    def _overwritten(self, read: Occurrence) -> bool:
        assert isinstance(read.stmt, n.GetElement)
        return any(may_follow(w, read, self.structure) for w in self.writes.get(read.stmt.var, ()))

    def to_restore(self, repeated: Collection[Value]) -> set[Place]:
        """Writes to arrays that can follow one of these reads."""
        found: set[Place] = set()
        for value in repeated:
            read = self.reads[value]
            if isinstance(read.stmt, n.GetElement):
                for write in self.writes.get(read.stmt.var, ()):
                    if may_follow(write, read, self.structure):
                        found.add((write.path, write.position))
        return found

    def is_same(self, value: Value, readers: Iterable[Place]) -> bool:
        """Whether each of these statements' reverses finds what the read found, all later writes being undone."""
        read = self.reads[value]
        writes = [self._position(w.path, w.position, read) for w in self.writes.get(self.variable(value), ())]
        within = [w for w in writes if w is not None and w > read.position]
        return not any(w <= (self._position(*place, read) or 0) for place in readers for w in within)

    @staticmethod
    def _position(path: Path, position: int, read: Occurrence) -> int | None:
        """The position, in the block of the read, of the statement that is or holds the one at this place."""
        length = len(read.path)
        if path[:length] != read.path:
            return None
        return path[length][0] if len(path) > length else position


def may_follow(later: Occurrence, earlier: Occurrence, structure: Structure) -> bool:
    """Whether `later` may run after `earlier` within one execution of the task's body."""
    return bool(structure.loops(common_block(later.path, earlier.path))) or comes_after(later, earlier, structure)


def _in_condition(write: Occurrence) -> bool:
    """Conditions of while loops are not reversed, so what is written there cannot be undone."""
    return any(name == "condition" for _, name in write.path)
