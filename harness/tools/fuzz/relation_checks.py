"""Check the relations that the plan of a case contains, on the reference or on the backends of the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ....backends.base import Backend
from ....compiler.ir.kernels import Kernel
from ....reference.backend import ReferenceBackend
from ...testing.executors import CHECKED, PRECISE
from ...testing.launch import GRAD
from ...testing.outcome import Arrays
from ..model import Program
from ..relations import STRAY
from ..relations.chain import LaunchChain, RelationExecutor
from ..relations.out_of_bounds import has_positions
from ..relations.table import TABLE
from .lowerings import Lowerings
from .plan import FuzzPlan
from .reference_run import FUEL, BoundedResult
from .result import JudgedComparison
from .widened_cpu import executors


class HasBackends(Protocol):
    """Define the interface of an object with an attribute `backends`, such as the fuzzer's panel."""

    @property
    def backends(self) -> Mapping[str, Backend]:
        """Return the backends by name."""


def compare(
    made: Lowerings,
    initial: Arrays,
    launches: Sequence[BoundedResult],
    program: Program,
    plan: FuzzPlan,
    panel: HasBackends,
) -> Iterator[JudgedComparison]:
    """Yield the verdict of each executor on each relation of the plan.

    Args:
        made: The lowerings of the program.
        initial: Initial contents of its arrays.
        launches: The state after each launch; relations change the first launch, which ends well.
        program: The program of the case.
        plan: The plan of the case.
        panel: The backends of the process.
    """
    wanted = {name: _directions(name, plan) for name in relations_of(made.kernel, plan)}
    if not wanted:
        return
    states = initial, launches[0].arrays
    scalars, seeds = program.scalars(), program.seeds()
    given = {name + GRAD: seed for name, seed in seeds.items() if name in made.gradients}
    for name in (name for name in wanted if wanted[name]):
        chain = LaunchChain((made,), states[0], scalars, given if "reverse" in wanted[name] else {})
        # The states are known, so the cached property is set.
        chain.__dict__["states"] = states
        if chain.seeds and chain.refusal() is not None:
            chain = LaunchChain((made,), states[0], scalars, {})
        where = replace(plan, relate_on="backends") if name == STRAY else plan
        for on in _executors(where, panel.backends):
            values = on.name == "reference" or plan.forward or not chain.seeds or name == STRAY
            yield from TABLE[name](chain, on, plan.part, values and "forward" in wanted[name])


def relations_of(kernel: Kernel, plan: FuzzPlan) -> tuple[str, ...]:
    """Return the names of the relations that the plan checks on a kernel."""
    is_added = plan.positions and STRAY not in plan.relations and has_positions(kernel)
    return plan.relations + (STRAY,) * is_added


def _directions(name: str, plan: FuzzPlan) -> set[str]:
    """Return the directions in which a relation is checked.

    An index leads outside forward, which costs less than half of what the gradient costs, and in the gradient where
    backends run it and the plan names the relation.
    """
    is_forward = name == STRAY and not (plan.reverse and STRAY in plan.relations)
    directions = ("forward",) if is_forward else ("forward", "reverse")
    return {d for d in directions if plan.wants(d, name)}


def _executors(plan: FuzzPlan, backends: Mapping[str, Backend]) -> Iterator[RelationExecutor]:
    if plan.relate_on != "backends" or not plan.backends:
        yield RelationExecutor("reference", ReferenceBackend(fuel=FUEL), CHECKED)
    if plan.relate_on != "reference":
        for name, backend in executors(backends, plan).items():
            yield RelationExecutor(name, backend, replace(PRECISE, effort=plan.effort))
