"""This module finds the values that the reverse sweep of a task reads, before the plan decides how to get them.

The reverse sweep reads the values that the derivative rules of active operands read (running the rules on placeholders
finds them), the indices of reversed accesses, and the conditions, bounds and trip counts of statements whose blocks
contain statements to reverse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.roles import ACCESSES
from ..ir.statement import Stmt, Value
from ..ir.walk import NESTED
from .activity import Activity
from .policies import Policy
from .rule_reads import needs
from .structure import BlockPath, Structure, inner_blocks


@dataclass(frozen=True)
class ReverseRead:
    """Represent a value that the reverse of a statement reads, and the purpose of the read.

    Attributes:
        value: The value that is read.
        role: Text for reports that says what the value is used for, such as "the derivative of 'mul'".
    """

    value: Value
    role: str


@dataclass(frozen=True)
class Requirement:
    """Represent a value that the reverse sweep reads, and the statement whose reverse reads it.

    Attributes:
        value: The value that is read.
        path: The block of the statement whose reverse reads the value.
        position: The position of that statement in its block.
        stmt: The statement whose reverse reads the value.
        role: Text for reports that says what the value is used for, such as "the derivative of 'mul'".
    """

    value: Value
    path: BlockPath
    position: int
    stmt: Stmt
    role: str


class Requirements:
    """Find the values that the reverse sweep of one task requires.

    Attributes:
        structure: The structure of the task.
        activity: The activity of the kernel.
        policy: The choices of the plan.
        restored: Places of the writes to local arrays that the reverse sweep undoes.
    """

    def __init__(
        self, structure: Structure, activity: Activity, policy: Policy, restored: Collection[tuple[BlockPath, int]] = ()
    ) -> None:
        self.structure = structure
        self.activity = activity
        self.policy = policy
        self.restored = restored

    def reversed(self) -> set[tuple[BlockPath, int]]:
        """Return the positions of the statements for which the reverse sweep contains code."""
        found: set[tuple[BlockPath, int]] = set()
        self._mark((), self.structure.task.body, found)
        return found

    def _mark(self, path: BlockPath, block: tuple[Stmt, ...], found: set[tuple[BlockPath, int]]) -> bool:
        """Add to `found` the positions of a block's statements that have a reverse. Return True if there are any."""
        some = False
        for position, stmt in enumerate(block):
            nested = inner_blocks(stmt) if type(stmt) in NESTED else ()
            # The condition of a while loop has no reverse.
            inner = [self._mark((*path, (position, name)), b, found) for name, b in nested if name != "condition"]
            if any(inner) or self.has_reverse(stmt) or (path, position) in self.restored:
                found.add((path, position))
                some = True
        return some

    def has_adjoint(self, array: str) -> bool:
        """Return True if the array has a gradient, or is a temporary through which a derivative flows."""
        return array in self.activity.arrays

    def has_reverse(self, stmt: Stmt) -> bool:
        """Return True if the reverse sweep contains code for a statement without nested blocks."""
        active = self.activity.values
        if isinstance(stmt, (n.Op, n.Cast, n.Load, n.GetElement)):
            return stmt.result in active
        if isinstance(stmt, (n.Get, n.Set, n.SetElement)):
            return stmt.var in self.activity.locals
        if isinstance(stmt, n.Local):
            return self.policy.adjoint_stacks and stmt.var in self.activity.locals
        if isinstance(stmt, n.Store):
            return self.has_adjoint(stmt.array)
        # An extreme that wins takes the adjoint of the element, even if its value is not active.
        if isinstance(stmt, n.Atomic):
            return self.has_adjoint(stmt.array) and (stmt.value in active or stmt.op != "add")
        return False

    def of(self, occurrences: set[tuple[BlockPath, int]]) -> list[Requirement]:
        """Return the values that the reverse sweep reads for the given statements, those of outer blocks first."""
        return [
            Requirement(read.value, path, position, stmt, read.role)
            for path, block in self.structure.blocks.items()
            for position, stmt in enumerate(block)
            if (path, position) in occurrences
            for read in self.read(stmt)
        ]

    def read(self, stmt: Stmt) -> Iterator[ReverseRead]:
        """Yield the values that the reverse of one statement reads."""
        if isinstance(stmt, n.Op):
            yield from self._read_by_rule(stmt)
        elif isinstance(stmt, ACCESSES):
            yield from (ReverseRead(v, f"the index of '{stmt.array}'") for v in stmt.indices)
            if isinstance(stmt, n.Atomic) and stmt.op != "add":
                yield ReverseRead(stmt.value, f"the value of the atomic {stmt.op}")
        elif isinstance(stmt, (n.GetElement, n.SetElement)):
            yield ReverseRead(stmt.index, f"the index of '{stmt.var}'")
        elif isinstance(stmt, n.If):
            yield ReverseRead(stmt.cond, "the condition of this branch")
        elif isinstance(stmt, n.For):
            yield ReverseRead(stmt.begin, "the begin of this loop")
            if stmt.descending or not stmt.stop:
                yield ReverseRead(stmt.end, "the end of this loop")
        if (isinstance(stmt, n.While) or isinstance(stmt, n.For) and stmt.stop) and stmt.trips:
            yield ReverseRead(stmt.trips, "the trip count of this loop")

    def _read_by_rule(self, stmt: n.Op) -> Iterator[ReverseRead]:
        """Yield the values that the derivative rules of an operation read, for each operand that is active.

        These are the slope if it is computed in the forward sweep, else operands and result of the operation.
        """
        types, role = tuple(a.type for a in stmt.args), f"the derivative of '{stmt.op}'"
        for k in range(len(stmt.args)):
            slope = self.structure.slopes.get((stmt.result, k))
            if slope is not None:
                yield ReverseRead(slope, role)
            elif self.activity.operand(stmt, k):
                read = needs(stmt.op, types, stmt.result.type, k)
                assert read is not None
                yield from (ReverseRead(stmt.args[j], role) for j in sorted(read.operands))
                if read.result:
                    yield ReverseRead(stmt.result, role)
