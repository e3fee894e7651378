"""What the reverse sweep of a task reads: before anybody asks how it comes by it.

The derivative rules of active operands (found by running them on placeholders), the indices of reversed accesses, the
conditions, bounds and trip counts of what holds something to reverse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Stmt, Value
from ..ir.walk import NESTED
from .activity import Activity
from .needs import needs
from .policies import Policy
from .structure import Path, Structure, inner_blocks


@dataclass(frozen=True)
class Read:
    """A value that the reverse of a statement reads. role: as what, in words."""

    value: Value
    role: str


@dataclass(frozen=True)
class Requirement:
    """One read with its place: the block and position of the statement, and the statement itself."""

    value: Value
    path: Path
    position: int
    stmt: Stmt
    role: str


class Requirements:
    """What one task requires. restored: writes to local arrays that the reverse sweep undoes."""

    def __init__(
        self, structure: Structure, activity: Activity, policy: Policy, restored: Collection[tuple[Path, int]] = ()
    ) -> None:
        self.structure = structure
        self.activity = activity
        self.policy = policy
        self.restored = restored

    def reversed(self) -> set[tuple[Path, int]]:
        """Occurrences (path, position) that have a reverse."""
        found: set[tuple[Path, int]] = set()
        self._mark((), self.structure.task.body, found)
        return found

    def _mark(self, path: Path, block: tuple[Stmt, ...], found: set[tuple[Path, int]]) -> bool:
        some = False
        for position, stmt in enumerate(block):
            nested = inner_blocks(stmt) if type(stmt) in NESTED else ()
            inner = [self._mark((*path, (position, name)), b, found) for name, b in nested if name != "condition"]
            if any(inner) or self.has_reverse(stmt) or (path, position) in self.restored:
                found.add((path, position))
                some = True
        return some

    def has_adjoint(self, array: str) -> bool:
        """Arrays with a gradient, and temporaries that carry one."""
        return array in self.activity.arrays

    def has_reverse(self, stmt: Stmt) -> bool:
        """Whether a statement without blocks does anything in the reverse sweep."""
        active = self.activity.values
        if isinstance(stmt, (n.Op, n.Cast, n.Load, n.GetElement)):
            return stmt.result in active
        if isinstance(stmt, (n.Get, n.Set, n.SetElement)):
            return stmt.var in self.activity.locals
        if isinstance(stmt, n.Local):
            return self.policy.adjoint_stacks and stmt.var in self.activity.locals
        if isinstance(stmt, n.Store):
            return self.has_adjoint(stmt.array)
        if isinstance(stmt, n.Atomic):  # an extreme that wins takes the adjoint, also if it has no use for it
            return self.has_adjoint(stmt.array) and (stmt.value in active or stmt.op != "add")
        return False

    def of(self, occurrences: set[tuple[Path, int]]) -> list[Requirement]:
        """What the reverses of these occurrences read, outer blocks before inner ones."""
        return [
            Requirement(read.value, path, position, stmt, read.role)
            for path, block in self.structure.blocks.items()
            for position, stmt in enumerate(block)
            if (path, position) in occurrences
            for read in self.read(stmt)
        ]

    def read(self, stmt: Stmt) -> Iterator[Read]:
        """What the reverse of one statement reads."""
        if isinstance(stmt, n.Op):
            yield from self._read_by_rule(stmt)
        elif isinstance(stmt, (n.Load, n.Store, n.Atomic)):
            yield from (Read(v, f"the index of '{stmt.array}'") for v in stmt.indices)
            if isinstance(stmt, n.Atomic) and stmt.op != "add":
                yield Read(stmt.value, f"the value of the atomic {stmt.op}")
        elif isinstance(stmt, (n.GetElement, n.SetElement)):
            yield Read(stmt.index, f"the index of '{stmt.var}'")
        elif isinstance(stmt, n.If):
            yield Read(stmt.cond, "the condition of this branch")
        elif isinstance(stmt, n.For):
            yield Read(stmt.begin, "the begin of this loop")
            if stmt.descending or not stmt.stop:
                yield Read(stmt.end, "the end of this loop")
        if (isinstance(stmt, n.While) or isinstance(stmt, n.For) and stmt.stop) and stmt.trips:
            yield Read(stmt.trips, "the trip count of this loop")

    def _read_by_rule(self, stmt: n.Op) -> Iterator[Read]:
        types, role = tuple(a.type for a in stmt.args), f"the derivative of '{stmt.op}'"
        for k in range(len(stmt.args)):
            slope = self.structure.slopes.get((stmt.result, k))
            if slope is not None:
                yield Read(slope, role)
            elif self.activity.operand(stmt, k):
                read = needs(stmt.op, types, stmt.result.type, k)
                assert read is not None
                yield from (Read(stmt.args[j], role) for j in sorted(read.operands))
                if read.result:
                    yield Read(stmt.result, role)
