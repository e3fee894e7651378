"""What the reverse sweep of a task reads, and how it comes by it.

*Requirement*: what the derivative rules read for each active operand, indices of reversed accesses, conditions and
bounds of what holds something to reverse. *Choice*, in order of definition, for each required value:

    free        constants, arguments, shapes; the index of an enclosing loop, which the reversed loop has again
    kept        defined outside serial loops: a register that outlives the forward sweep
    recomputed  an operation, or a load not at risk, whose operands are available
    saved       on an adstack of its own; trip counts, decisions and indices like any other value

A saved value is pushed at the entry of the lowest block, going down through ifs only, that holds all its readers
(else right after its definition), and popped at the entry of that block's reverse.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.nodes import Stmt, Value
from ..ir.walk import NESTED, operands
from .activity import Activity
from .needs import needs
from .structure import Path, Structure, inner_blocks

RECOMPUTED = (n.Op, n.Cast, n.BitCast)
FREE = (n.Const, n.Arg, n.Shape)


@dataclass(frozen=True)
class Policy:
    """A lowering of reverse mode. recompute, sink: as above. adjoint_stacks: active locals become adstacks whose
    slots hold primal and adjoint."""

    name: str
    recompute: bool
    sink: bool
    adjoint_stacks: bool


LOWERINGS = {
    "lean": Policy("lean", recompute=True, sink=True, adjoint_stacks=False),
    "classic": Policy("classic", recompute=False, sink=False, adjoint_stacks=True),
}


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

    def make(self) -> Plan:
        """The plan; needs no second look at the kernel."""
        self._mark((), self.structure.task.body)
        required = [r for path in self.structure.blocks for r in self._requirements(path)]
        self._choose({v for v, _ in required})
        self._place(required)
        return self.plan

    # -- what has a reverse ---------------------------------------------------------------------------------------

    def _mark(self, path: Path, block: tuple[Stmt, ...]) -> bool:
        found = False
        for position, stmt in enumerate(block):
            nested = inner_blocks(stmt) if type(stmt) in NESTED else ()
            inner = [self._mark((*path, (position, name)), b) for name, b in nested if name != "condition"]
            if any(inner) or self.has_reverse(stmt):
                self.plan.reversed.add((path, position))
                found = True
        return found

    def has_adjoint(self, array: str) -> bool:
        """Arrays with a gradient, and temporaries that carry one."""
        return array in self.activity.arrays

    def has_reverse(self, stmt: Stmt) -> bool:
        """Whether a statement without blocks does anything in the reverse sweep."""
        active = self.activity.values
        if isinstance(stmt, (n.Op, n.Cast)):
            return stmt.result in active
        if isinstance(stmt, (n.Get, n.Set)):
            return stmt.var in self.activity.locals
        if isinstance(stmt, n.Local):
            return self.policy.adjoint_stacks and stmt.var in self.activity.locals
        if isinstance(stmt, n.Load):
            return stmt.result in active
        if isinstance(stmt, n.Store):
            return self.has_adjoint(stmt.array)
        if isinstance(stmt, n.Atomic):  # an extreme that wins takes the adjoint, also if it has no use for it
            return self.has_adjoint(stmt.array) and (stmt.value in active or stmt.op != "add")
        return False

    # -- requirement ----------------------------------------------------------------------------------------------

    def _requirements(self, path: Path) -> Iterator[tuple[Value, Path]]:
        for position, stmt in enumerate(self.structure.blocks[path]):
            if (path, position) in self.plan.reversed:
                for value in self._read(stmt):
                    yield value, path

    def _read(self, stmt: Stmt) -> Iterator[Value]:
        if isinstance(stmt, n.Op):
            yield from self._read_by_rule(stmt)
        elif isinstance(stmt, (n.Load, n.Store)):
            yield from stmt.indices
        elif isinstance(stmt, n.Atomic):
            yield from stmt.indices
            if stmt.op != "add":
                yield stmt.value
        elif isinstance(stmt, n.If):
            yield stmt.cond
        elif isinstance(stmt, n.For):
            yield stmt.begin
            if stmt.descending or not stmt.stop:
                yield stmt.end
            if stmt.stop and stmt.trips:
                yield stmt.trips
        elif isinstance(stmt, n.While) and stmt.trips:
            yield stmt.trips

    def _read_by_rule(self, stmt: n.Op) -> Iterator[Value]:
        types = tuple(a.type for a in stmt.args)
        for k in range(len(stmt.args)):
            if self.activity.operand(stmt, k):
                read = needs(stmt.op, types, stmt.result.type, k)
                assert read is not None
                yield from (stmt.args[j] for j in sorted(read.operands))
                if read.result:
                    yield stmt.result

    # -- choice ---------------------------------------------------------------------------------------------------

    def is_free(self, value: Value) -> bool:
        return isinstance(self.structure.made.get(value), FREE) or self.structure.is_index(value)

    def is_kept(self, value: Value) -> bool:
        return self.structure.depth(self.structure.homes[value]) == 0

    def is_recomputable(self, value: Value) -> bool:
        stmt = self.structure.made[value]
        safe_load = isinstance(stmt, n.Load) and value not in self.at_risk
        return self.policy.recompute and (isinstance(stmt, RECOMPUTED) or safe_load)

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

    def _place(self, required: list[tuple[Value, Path]]) -> None:
        """Readers of each saved value, through recomputation; then where to push it."""
        readers: dict[Value, set[Path]] = {v: set() for v in self.plan.saved}
        seen: set[tuple[Value, Path]] = set()
        pending = list(required)
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
