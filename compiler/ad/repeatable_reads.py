"""Find the reads of locals that the reverse sweep may repeat, so that their results need not be saved.

*Lasting* reads: a local array declared at the root of a task lives through both sweeps, and the reverse sweep finds it
as the forward sweep left it. A read of the array may be repeated anywhere if no write to the array can follow the read,
later in the text or in a later trip of a common loop.

*Undone* writes: where the reverse sweep puts back what each write replaced, it finds at each point the elements that
the forward sweep had there. Then a read may be repeated at the reverse of a later statement if no statement between the
two writes the array, and if the later statement does not write it either (its reverse first undoes the whole
statement). To restore costs one saved element for each write that can follow the read, and the path to the write must
be reversed even if nothing on it is active.

The adstack of a variable under the classic lowering works in the same way: each set pushes, and its reverse pops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..ir import nodes as n
from ..ir.roles import LOCAL_READS, LOCAL_WRITES
from ..ir.statement import Value
from .structure import BlockPath, Occurrence, Structure, comes_after, common_block

PathPlace = tuple[BlockPath, int]
"""A place is a block and the position of a statement in it."""


class LocalAccesses:
    """Represent the reads and writes of locals in one task, and which of these reads may be repeated.

    Attributes:
        structure: The structure of the task.
        reads: Where each read of a local stands, by the result of the read.
        writes: Where the writes to each local stand, by its name.
        lasting: Results of reads of local arrays that may be repeated anywhere.
        other: Results of reads of local arrays that may be repeated only if the reverse sweep undoes later writes.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.reads: dict[Value, Occurrence] = {}
        self.writes: dict[str, list[Occurrence]] = {}
        for o in structure.occurrences():
            if isinstance(o.stmt, LOCAL_READS):
                self.reads[o.stmt.result] = o
            elif isinstance(o.stmt, LOCAL_WRITES):
                self.writes.setdefault(o.stmt.var, []).append(o)
        at_root = {var for var, path in structure.declared.items() if path == ()}
        elements = {v: o for v, o in self.reads.items() if isinstance(o.stmt, n.GetElement) and o.stmt.var in at_root}
        self.lasting = {v for v, read in elements.items() if not self._overwritten(read)}
        # A condition has no reverse, so a write in a condition cannot be undone.
        fixed = {var for var, writes in self.writes.items() if any(_in_condition(w) for w in writes)}
        self.other = {v for v in elements if v not in self.lasting and self.variable(v) not in fixed}

    def variable(self, value: Value) -> str:
        """Return the name of the local from which the read with this result reads."""
        stmt = self.reads[value].stmt
        assert isinstance(stmt, LOCAL_READS)
        return stmt.var

    def _overwritten(self, read: Occurrence) -> bool:
        """Return True if a write to the same local array may follow the read."""
        assert isinstance(read.stmt, n.GetElement)
        return any(may_follow(w, read, self.structure) for w in self.writes.get(read.stmt.var, ()))

    def to_restore(self, repeated: Collection[Value]) -> set[PathPlace]:
        """Return the positions of the writes that the reverse sweep must undo, because a read before them is repeated.

        Args:
            repeated: The results of the reads of locals that the reverse sweep repeats.
        """
        found: set[PathPlace] = set()
        for value in repeated:
            read = self.reads[value]
            if isinstance(read.stmt, n.GetElement):
                for write in self.writes.get(read.stmt.var, ()):
                    if may_follow(write, read, self.structure):
                        found.add((write.path, write.position))
        return found

    def is_same(self, value: Value, readers: Iterable[PathPlace]) -> bool:
        """Return True if a read finds the same value when the reverse sweep repeats it for each of the `readers`.

        It is assumed that the reverse sweep has undone all writes whose statements it has reversed before.

        Args:
            value: The result of the read.
            readers: The places of the statements whose reverses read the value.
        """
        read = self.reads[value]
        writes = [self._position(w.path, w.position, read) for w in self.writes.get(self.variable(value), ())]
        within = [w for w in writes if w is not None and w > read.position]
        return not any(w <= (self._position(*place, read) or 0) for place in readers for w in within)

    @staticmethod
    def _position(path: BlockPath, position: int, read: Occurrence) -> int | None:
        """Return the position, in the block of `read`, of the statement at or around (path, position), or None.

        The result is None if the place lies outside that block.
        """
        length = len(read.path)
        if path[:length] != read.path:
            return None
        return path[length][0] if len(path) > length else position


def may_follow(later: Occurrence, earlier: Occurrence, structure: Structure) -> bool:
    """Return True if `later` may run after `earlier` within one execution of the task's body."""
    return bool(structure.loops(common_block(later.path, earlier.path))) or comes_after(later, earlier, structure)


def _in_condition(write: Occurrence) -> bool:
    """Return True if the write is in the condition of a while loop."""
    return any(name == "condition" for _, name in write.path)
