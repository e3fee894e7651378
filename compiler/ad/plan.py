"""How the reverse sweep of a task comes by what it reads: the plan that the forward and the reverse sweep follow.

`requirement` says what is read, `sources` what can be had for nothing or made again, `choice` what is saved. A saved
value is pushed at the entry of the lowest block, going down through ifs only, that holds all its readers (else right
after its definition), and popped at the entry of that block's reverse. A value that is made again is made where it is
read first, but before the loops that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.nodes import Value
from .activity import Activity
from .choice import choose
from .elements import Place
from .policies import Policy
from .requirement import Requirement, Requirements
from .sources import Sources
from .structure import Path, Structure

Readers = dict[Value, set[Place]]
"""Which statements' reverses read a value; positions are kept only where it matters, else they are 0."""


@dataclass
class Plan:
    """What becomes of the values of one task.

    sources: what can be had without being saved. saved: block at whose entry (or after the definition, if it is the
    home block) each saved value is pushed. early: by block, the values made again at the entry of its reverse, since
    loops inside read them. kept: values kept in registers. reversed: occurrences (path, position) that have a reverse.
    restored: writes to local arrays that the reverse sweep undoes. reader: of each saved and each recomputed value, one
    of those that need it in the end.
    """

    sources: Sources
    saved: dict[Value, Path] = field(default_factory=dict)
    early: dict[Path, list[Value]] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    reversed: set[Place] = field(default_factory=set)
    restored: set[Place] = field(default_factory=set)
    reader: dict[Value, Requirement] = field(default_factory=dict)

    @property
    def price(self) -> int:
        """What saving costs, in additions."""
        return sum(map(self.sources.price, self.saved)) + self.sources.price_of_restoring(self.restored)


class Planner:
    """Makes the plan of one task. at_risk: results of loads whose memory may be overwritten after them."""

    def __init__(self, structure: Structure, activity: Activity, at_risk: set[Value], policy: Policy) -> None:
        self.structure = structure
        self.activity = activity
        self.at_risk = at_risk
        self.policy = policy

    def make(self) -> Plan:
        """The plan: elements that are read are saved, but for arrays where it is cheaper to restore what is written."""
        plan = self._attempt(frozenset())
        arrays: frozenset[str] = frozenset()
        if self.policy.arrays == "read" or not plan.saved:
            return plan
        elements = plan.sources.elements
        for var in dict.fromkeys(elements.variable(v) for v in elements.reads if v in elements.other):
            other = self._attempt(arrays | {var})
            if other.price < plan.price or self.policy.arrays == "overwritten":
                plan, arrays = other, arrays | {var}
        return plan

    def _attempt(self, arrays: frozenset[str]) -> Plan:
        """The plan in which reads of these arrays are repeated, as far as they find the same at all their readers."""
        sources = Sources(self.structure, self.at_risk, self.policy)
        elements = sources.elements
        sources.repeated = {v for v in elements.other if elements.variable(v) in arrays}
        if self.policy.adjoint_stacks:
            sources.repeated |= {v for v in elements.reads if self._is_on_stack(v)}
        while True:
            plan = Plan(sources, restored=elements.to_restore(sources.repeated))
            readers = self._decide(plan)
            used = {v for v in sources.repeated if v in readers and v not in plan.saved}
            wrong = {v for v in used if not elements.is_same(v, readers[v])}
            if used == sources.repeated and not wrong:
                self._place(plan, readers)
                return plan
            sources.repeated = used - wrong

    def _is_on_stack(self, value: Value) -> bool:
        """Reads of variables whose versions the classic lowering has on adstacks, also where they are kept anyway."""
        made = self.structure.made[value]
        return isinstance(made, n.Get) and made.var in self.activity.locals

    def _decide(self, plan: Plan) -> Readers:
        """What has a reverse, what is saved, and who reads it."""
        requirements = Requirements(self.structure, self.activity, self.policy, plan.restored)
        plan.reversed = requirements.reversed()
        required = requirements.of(plan.reversed)
        plan.saved = dict.fromkeys(choose(plan.sources, {r.value for r in required}), ())
        return self._readers(plan, required)

    def _readers(self, plan: Plan, required: list[Requirement]) -> Readers:
        """Of each saved and each recomputed value, in order of definition; kept values are noted."""
        positional = bool(plan.sources.repeated)
        readers: Readers = {v: set() for v in plan.saved}
        pending = [(r.value, r) for r in required]
        while pending:
            value, reader = pending.pop()
            if value not in plan.saved:
                if plan.sources.is_free(value):
                    continue
                if plan.sources.is_kept(value):
                    plan.kept.add(value)
                    continue
            place = reader.path, reader.position if positional else 0
            known = readers.setdefault(value, set())
            if place not in known:
                known.add(place)
                plan.reader.setdefault(value, reader)
                if value not in plan.saved:
                    pending += ((v, reader) for v in plan.sources.inputs(value))
        return {v: readers[v] for v in self.structure.made if v in readers}

    # -- places ---------------------------------------------------------------------------------------------------

    def _place(self, plan: Plan, readers: Readers) -> None:
        """Where to push each saved value, and where to make a value again that loops read."""
        fixed = set(plan.sources.repeated)
        for value, places in readers.items():
            home, paths = self.structure.homes[value], {path for path, _ in places}
            place = self._sink(home, paths)
            if value in plan.saved:
                plan.saved[value] = place if self.policy.sink else home
            elif value in fixed or not fixed.isdisjoint(plan.sources.inputs(value)):
                fixed.add(value)  # a read that finds the same where it is read, not anywhere
            elif self._loops_below(place, paths):
                plan.early.setdefault(place, []).append(value)

    def _loops_below(self, place: Path, readers: set[Path]) -> bool:
        """Whether a reader stands in a loop inside this block, so that each trip would make the value again."""
        return any(self.structure.depth(reader) > self.structure.depth(place) for reader in readers)

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
