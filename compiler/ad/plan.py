"""What the reverse sweep of a task reads, and how it comes by it.

What it reads is found in `requirement`. The choice, in order of definition, for each required value:

    free        constants, arguments, shapes; the index of an enclosing loop, which the reversed loop has again
    kept        defined outside serial loops: a register that outlives the forward sweep
    recomputed  an operation, a load not at risk, or a read of a local array that nothing overwrites later, whose
                operands are available
    saved       on an adstack of its own; trip counts, decisions and indices like any other value

A saved value is pushed at the entry of the lowest block, going down through ifs only, that holds all its readers
(else right after its definition), and popped at the entry of that block's reverse.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.nodes import Value
from ..ir.walk import operands
from .activity import Activity
from .elements import lasting_reads
from .policies import Policy
from .requirement import Requirement, Requirements
from .structure import Path, Structure

RECOMPUTED = (n.Op, n.Cast, n.BitCast)
FREE = (n.Const, n.Arg, n.Shape)


@dataclass
class Plan:
    """saved: block at whose entry (or after the definition, if it is the home block) each saved value is pushed.

    kept: values kept in registers. reversed: occurrences (path, position) that have a reverse.
    """

    saved: dict[Value, Path] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    reversed: set[tuple[Path, int]] = field(default_factory=set)


class Planner:
    """Makes the plan of one task. at_risk: results of loads whose memory may be overwritten after them."""

    def __init__(
        self, structure: Structure, activity: Activity, at_risk: set[Value], policy: Policy
    ) -> None:
        self.structure = structure
        self.activity = activity
        self.at_risk = at_risk
        self.policy = policy
        self.plan = Plan()
        self.lasting = lasting_reads(structure)

    def make(self) -> Plan:
        """The plan; needs no second look at the kernel."""
        requirements = Requirements(self.structure, self.activity, self.policy)
        self.plan.reversed = requirements.reversed()
        required = requirements.of(self.plan.reversed)
        self._choose({r.value for r in required})
        self._place(required)
        return self.plan

    # -- choice ---------------------------------------------------------------------------------------------------

    def is_free(self, value: Value) -> bool:
        return isinstance(self.structure.made.get(value), FREE) or self.structure.is_index(value)

    def is_kept(self, value: Value) -> bool:
        return self.structure.depth(self.structure.homes[value]) == 0

    def is_recomputable(self, value: Value) -> bool:
        stmt = self.structure.made[value]
        safe_load = isinstance(stmt, n.Load) and value not in self.at_risk
        return self.policy.recompute and (isinstance(stmt, RECOMPUTED) or safe_load or value in self.lasting)

    def _choose(self, required: set[Value]) -> None:
        """One walk in order of definition: operands are decided before what is computed from them."""
        available: set[Value] = set(self.structure.task.indices)
        for value, stmt in self.structure.made.items():
            again = self.is_recomputable(value) and available.issuperset(operands(stmt))
            if again or self.is_free(value) or self.is_kept(value):
                available.add(value)
            elif value in required:
                self.plan.saved[value] = ()
                available.add(value)

    # -- places ---------------------------------------------------------------------------------------------------

    def _place(self, required: list[Requirement]) -> None:
        """Readers of each saved value, through recomputation; then where to push it."""
        readers: dict[Value, set[Path]] = {v: set() for v in self.plan.saved}
        seen: set[tuple[Value, Path]] = set()
        pending = [(r.value, r.path) for r in required]
        while pending:
            value, path = pending.pop()
            if (value, path) in seen:
                continue
            seen.add((value, path))
            if value in readers:
                readers[value].add(path)
            elif self.is_free(value):
                continue
            elif self.is_kept(value):
                self.plan.kept.add(value)
            else:
                pending += ((v, path) for v in operands(self.structure.made[value]))
        for value, paths in readers.items():
            home = self.structure.homes[value]
            self.plan.saved[value] = self._sink(home, paths) if self.policy.sink else home

    def _sink(self, home: Path, readers: set[Path]) -> Path:
        place = home
        while readers and all(len(p) > len(place) for p in readers):
            steps = {p[len(place)] for p in readers}
            if len(steps) != 1:
                break
            deeper = (*place, steps.pop())
            if not isinstance(self.structure.holder(deeper), n.If):
                break
            place = deeper
        return place
