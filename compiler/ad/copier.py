"""This module copies tasks without their effects, except for stores to chosen arrays.

The copies have values and locals of their own, because each is defined once in a kernel. If a load is at risk, its copy
is recorded as at risk too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.roles import ACCESSES
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import map_blocks, results
from .risk import Risk


class Copier:
    """Copy tasks without their effects, except for the stores to the given arrays.

    Attributes:
        next_id: Id of the next new value; no value of the kernel has it or a greater one.
        stored: The arrays whose stores stay, each with the name of the array that the copy accesses instead.
        at_risk: The risks of loads, by result. The copier adds the copies of these loads.
        prefix: Text put before the names of locals.
        own: The locals that have other names in the copy; None for all.
        names: For each value of the task that is defined again in the copy, its new value.
    """

    def __init__(
        self,
        first_id: int,
        stored: Mapping[str, str],
        at_risk: dict[Value, Risk],
        prefix: str,
        own: Collection[str] | None = None,
    ) -> None:
        self.next_id = first_id
        self.stored = stored
        self.at_risk = at_risk
        self.prefix = prefix
        self.own = own
        self.names: dict[Value, Value] = {}

    def task(self, task: Task) -> Task:
        """Return the copy of a task without effects other than stores to the chosen arrays."""
        bounds = self.block(task.bounds)
        indices = tuple(self.fresh(v) for v in task.indices)
        begin, end = (tuple(self.names[v] for v in ends) for ends in (task.begin, task.end))
        return replace(task, bounds=bounds, indices=indices, begin=begin, end=end, body=self.block(task.body))

    def bounds(self, task: Task) -> Block:
        """Return a copy of the bounds of a task with locals of its own, which the body of the task does not see."""
        own, self.prefix = self.prefix, f"{self.prefix}bounds."
        made = self.block(task.bounds)
        self.prefix = own
        return made

    def fresh(self, value: Value) -> Value:
        """Create the value that stands for `value` in the copy, and return it."""
        self.names[value] = Value(self.next_id, value.type)
        self.next_id += 1
        return self.names[value]

    def block(self, block: Block) -> Block:
        """Return the copy of a block, in which all values and locals are new."""
        return tuple(self.stmt(s) for s in block if self._stays(s))

    def _stays(self, stmt: Stmt) -> bool:
        """Return False if the copy omits the statement: an assert, a print, or a store to an array not chosen."""
        if isinstance(stmt, (n.Assert, n.Print)):
            return False
        return not isinstance(stmt, n.Store) or stmt.array in self.stored

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return the copy of one statement, with new values for its results."""
        changes: dict[str, Any] = {}
        for name in ("result", "index", "trips"):
            value = getattr(stmt, name, None)
            if isinstance(value, Value) and value in results(stmt):
                changes[name] = self.fresh(value)
                if value in self.at_risk and getattr(stmt, "array", None) not in self.stored:
                    # An array in `stored` is a copy or a temporary, which the copied tasks fill themselves, so its
                    # loads are not at risk.
                    self.at_risk[changes[name]] = self.at_risk[value]
        for name in ("var", "stop"):
            var = getattr(stmt, name, None)
            if var and (self.own is None or var in self.own):
                changes[name] = self.prefix + var
        if isinstance(stmt, n.Atomic) and stmt.array not in self.stored:
            # The kernel itself did the update. A load takes the place of its result; it is at risk like that result.
            return n.Load(changes["result"], stmt.array, self.renamed(stmt.indices), loc=stmt.loc)
        if isinstance(stmt, ACCESSES):
            changes["array"] = self.stored.get(stmt.array, stmt.array)
        return self._operands(replace(map_blocks(stmt, self.block), **changes))

    def renamed(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the operands of a statement of the copy: the new value for each value of the task that was copied."""
        return tuple(self.names.get(v, v) for v in values)

    def _operands(self, stmt: Stmt) -> Stmt:
        own: dict[str, Any] = {}
        for name, role in n.ROLES[type(stmt)]:
            if role == "operand":
                old = getattr(stmt, name)
                own[name] = self.renamed(old) if isinstance(old, tuple) else self.names.get(old, old)
        return replace(stmt, **own) if own else stmt
