"""This module plans how the reverse sweep of a task obtains each value that it reads.

`requirement` finds what is read, `sources` what is free or can be recomputed, and `saved_values` what is saved. The
forward and the reverse sweep follow the plan.

A saved value is pushed at the entry of the lowest block that holds all its readers and that branches alone lead to; if
this is the block of the definition, the value is pushed right after the definition. It is popped at the entry of that
block's reverse. A recomputed value is computed by its first reader, but before the loops that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.statement import Value
from .activity import Activity
from .policies import Policy
from .repeatable_reads import PathPlace
from .requirement import Requirement, Requirements
from .saved_values import choose
from .sources import ValueSources
from .structure import BlockPath, Structure

Readers = dict[Value, set[PathPlace]]
"""For each value, the places of the statements whose reverses read the value.

A position is 0 unless some read is repeated, since only then positions matter.
"""


@dataclass
class SavingPlan:
    """Represent how the reverse sweep of one task obtains each value that it reads.

    Attributes:
        sources: The ways in which values can be had without being saved.
        saved: The block at whose entry each saved value is pushed. If it is the block of the definition, the value is
        pushed after the definition.
        early: By block, the values that are recomputed at the entry of its reverse because loops inside read them.
        kept: Values that are kept in registers.
        reversed: Places of the statements that have a reverse.
        restored: Places of the writes to local arrays that the reverse sweep undoes.
        reader: For each saved or recomputed value, one of the requirements for which it is needed, for reports.
    """

    sources: ValueSources
    saved: dict[Value, BlockPath] = field(default_factory=dict)
    early: dict[BlockPath, list[Value]] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    reversed: set[PathPlace] = field(default_factory=set)
    restored: set[PathPlace] = field(default_factory=set)
    reader: dict[Value, Requirement] = field(default_factory=dict)

    @property
    def price(self) -> int:
        """Return the estimated cost of the pushes and pops of all saved values, in units of one addition."""
        return sum(map(self.sources.price, self.saved)) + self.sources.price_of_restoring(self.restored)

    @property
    def taken(self) -> set[Value]:
        """Return the values of the forward sweep that the reverse sweep needs: kept, saved, or deciding if a push runs.

        The reverse sweep repeats some reads of locals. It takes the contents of these locals from the forward sweep,
        and so the values that these reads find count too.
        """
        structure, reads = self.sources.structure, self.sources.elements.reads
        branches = [structure.holder(p) for path in self.saved.values() for p in _prefixes(path)]
        writes = [structure.blocks[path][position] for path, position in self.restored]
        return (
            self.kept
            | self.saved.keys()
            | {v for v in self.reader if v in reads}
            | {b.cond for b in branches if isinstance(b, n.If)}
            | {w.index for w in writes if isinstance(w, n.SetElement)}
        )


class SavingPlanner:
    """Compute the plan of one task: how the reverse sweep obtains each value that it reads.

    Attributes:
        structure: The structure of the task.
        activity: The activity of the kernel.
        at_risk: Results of loads whose memory may be overwritten after the load.
        policy: The choices that the plan may make.
    """

    def __init__(self, structure: Structure, activity: Activity, at_risk: set[Value], policy: Policy) -> None:
        self.structure = structure
        self.activity = activity
        self.at_risk = at_risk
        self.policy = policy

    def make(self) -> SavingPlan:
        """Return the plan of the task: how the reverse sweep obtains each value that it reads.

        Elements of overwritten local arrays are saved when they are read, unless it is cheaper to restore what writes
        replace.
        """
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

    def _attempt(self, arrays: frozenset[str]) -> SavingPlan:
        """Return a plan by which the reverse sweep repeats reads of the local arrays in `arrays` and saves none.

        A read is repeated only if it finds the same value wherever the reverse sweep needs its result.
        """
        sources = ValueSources(self.structure, self.at_risk, self.policy)
        elements = sources.elements
        sources.repeated = {v for v in elements.other if elements.variable(v) in arrays}
        if self.policy.adjoint_stacks:
            sources.repeated |= {v for v in elements.reads if self._is_on_stack(v)}
        while True:
            plan = SavingPlan(sources, restored=elements.to_restore(sources.repeated))
            readers = self._decide(plan)
            used = {v for v in sources.repeated if v in readers and v not in plan.saved}
            wrong = {v for v in used if not elements.is_same(v, readers[v])}
            if used == sources.repeated and not wrong:
                self._place(plan, readers)
                return plan
            # Without these reads, fewer writes are restored and other values are read, so the plan is made anew.
            sources.repeated = used - wrong

    def _is_on_stack(self, value: Value) -> bool:
        """Return True if `value` is read from a local that the classic lowering keeps on an adstack.

        This holds also if the value is kept anyway.
        """
        made = self.structure.made[value]
        return isinstance(made, n.Get) and made.var in self.activity.locals

    def _decide(self, plan: SavingPlan) -> Readers:
        """Decide which statements have a reverse and which values are saved, and return the readers of each value."""
        requirements = Requirements(self.structure, self.activity, self.policy, plan.restored)
        plan.reversed = requirements.reversed()
        required = requirements.of(plan.reversed)
        plan.saved = dict.fromkeys(choose(plan.sources, {r.value for r in required}), ())
        return self._readers(plan, required)

    def _readers(self, plan: SavingPlan, required: list[Requirement]) -> Readers:
        """Return the readers of each saved or recomputed value, and record the kept values in the plan."""
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

    def _place(self, plan: SavingPlan, readers: Readers) -> None:
        """Choose the block that pushes each saved value, and the values to recompute before loops that read them."""
        fixed = set(plan.sources.repeated)
        for value, places in readers.items():
            home, paths = self.structure.homes[value], {path for path, _ in places}
            place = self._sink(home, paths)
            if value in plan.saved:
                plan.saved[value] = place if self.policy.sink else home
            elif value in fixed or not fixed.isdisjoint(plan.sources.inputs(value)):
                # A repeated read finds the same at its readers, but not anywhere, so it cannot move to an earlier
                # place.
                fixed.add(value)
            elif self._loops_below(place, paths):
                plan.early.setdefault(place, []).append(value)

    def _loops_below(self, place: BlockPath, readers: set[BlockPath]) -> bool:
        """Return True if a reader is in a loop inside the block `place`, where each trip would recompute the value."""
        return any(self.structure.depth(reader) > self.structure.depth(place) for reader in readers)

    def _sink(self, home: BlockPath, readers: set[BlockPath]) -> BlockPath:
        """Return the innermost block that contains all readers and is reached from `home` through branches only."""
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


def _prefixes(path: BlockPath) -> list[BlockPath]:
    """Return the path of a block and of each block around it, except the body of the task."""
    return [path[:length] for length in range(1, len(path) + 1)]
