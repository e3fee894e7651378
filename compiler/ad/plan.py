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
from .policies import Policy
from .requirement import Requirement, Requirements
from .sources import Sources
from .structure import Path, Structure


@dataclass
class Plan:
    """What becomes of the values of one task.

    sources: what can be had without being saved. saved: block at whose entry (or after the definition, if it is the
    home block) each saved value is pushed. early: by block, the values made again at the entry of its reverse, since
    loops inside read them. kept: values kept in registers. reversed: occurrences (path, position) that have a reverse.
    reader: of each saved and each recomputed value, one of those that need it in the end.
    """

    sources: Sources
    saved: dict[Value, Path] = field(default_factory=dict)
    early: dict[Path, list[Value]] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    reversed: set[tuple[Path, int]] = field(default_factory=set)
    reader: dict[Value, Requirement] = field(default_factory=dict)


class Planner:
    """Makes the plan of one task. at_risk: results of loads whose memory may be overwritten after them."""

    def __init__(
        self, structure: Structure, activity: Activity, at_risk: set[Value], policy: Policy
    ) -> None:
        self.structure = structure
        self.activity = activity
        self.policy = policy
        self.plan = Plan(Sources(structure, at_risk, policy))

    def make(self) -> Plan:
        """The plan; needs no second look at the kernel."""
        requirements = Requirements(self.structure, self.activity, self.policy)
        self.plan.reversed = requirements.reversed()
        required = requirements.of(self.plan.reversed)
        self.plan.saved = dict.fromkeys(choose(self.plan.sources, {r.value for r in required}), ())
        self._place(required)
        return self.plan

    # -- places ---------------------------------------------------------------------------------------------------

    def _place(self, required: list[Requirement]) -> None:
        """Readers of each value, through recomputation; then where to push it, or to make it again."""
        readers = self._readers(required)
        for value, paths in readers.items():
            home = self.structure.homes[value]
            place = self._sink(home, paths)
            if value in self.plan.saved:
                self.plan.saved[value] = place if self.policy.sink else home
            elif self._loops_below(place, paths):
                self.plan.early.setdefault(place, []).append(value)

    def _readers(self, required: list[Requirement]) -> dict[Value, set[Path]]:
        """Blocks that read each saved and each recomputed value, in order of definition; kept values are noted."""
        readers: dict[Value, set[Path]] = {v: set() for v in self.plan.saved}
        pending = [(r.value, r.path, r) for r in required]
        while pending:
            value, path, reader = pending.pop()
            if value not in self.plan.saved:
                if self.plan.sources.is_free(value):
                    continue
                if self.plan.sources.is_kept(value):
                    self.plan.kept.add(value)
                    continue
            known = readers.setdefault(value, set())
            if path not in known:
                known.add(path)
                self.plan.reader.setdefault(value, reader)
                if value not in self.plan.saved:
                    pending += ((v, path, reader) for v in self.plan.sources.inputs(value))
        return {v: readers[v] for v in self.structure.made if v in readers}

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
