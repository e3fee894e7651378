"""Decide which arrays a grad kernel reads from copies of the state before the launch.

    y[i] = 2 x[i];  x[i] = exp(x[i])        the reverse sweep reads exp(x[i]), which the forward sweep computes again
                                            from x[i] as it was before: x is copied

The plans name the values that the reverse sweeps take from the forward sweeps. A slice of the kernel, which holds only
the statements on which these values depend, shows which elements are read. An array is copied if one of these elements
is overwritten. The forward sweeps repeat the stores to a copy, and what these stores need is part of the slice too. So
a copy may lead to more reads, and the decision is the least set of arrays that serves all reads of its slice.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from ..ir.kernels import Kernel, Task
from ..ir.statement import Block, Value
from ..ir.walk import map_blocks
from ..passes.dead_code import remove_dead_code
from .before_copies import BeforeCopies, make_copies, redirect_to_copies
from .check import lost_reads
from .forward import without_effect
from .plan import SavingPlan
from .risk import Risk
from .task_order import in_order


def arrays_to_copy(
    kernel: Kernel, plans: list[SavingPlan], at_risk: Mapping[Value, Risk], cured: Container[Risk], first_id: int
) -> frozenset[str]:
    """Return the arrays that the grad kernel reads from copies of the state before the launch.

    Args:
        kernel: The kernel, of stage structured.
        plans: The plan of each task.
        at_risk: The risks of loads, by the result of the load.
        cured: Risks that copies remove.
        first_id: Id of the first new value; no value of the kernel has it or a greater one.

    Returns:
        The least set of arrays to copy so that every read finds the value of the forward launch. If copies cannot
        achieve this for some read, the gradient will be refused, and the set may be smaller.
    """
    arrays: frozenset[str] = frozenset()
    while True:
        copies, risks = make_copies(kernel, arrays), dict(at_risk)
        needed = _slice(kernel, plans, copies, risks, first_id)
        lost = {risk for risk, _ in lost_reads(needed, risks, copies.names, cured, taped=True)}
        more = arrays | {risk.load.array for risk in lost}
        if more == arrays or any(risk not in cured for risk in lost):
            return arrays
        arrays = more


def _slice(
    kernel: Kernel, plans: list[SavingPlan], copies: BeforeCopies, at_risk: dict[Value, Risk], first_id: int
) -> Kernel:
    """Return a kernel with those statements of forward sweeps and repeated tasks that compute values for the plans."""

    def forward(t: int, first_id: int) -> tuple[Task, int]:
        task, own = plans[t].sources.structure.task, copies.of(t)
        return replace(task, bounds=redirect_to_copies(task.bounds, own), body=_repeated(task.body, own)), first_id

    every = in_order(kernel, plans, copies, at_risk, first_id, forward)
    return remove_dead_code(every, keep_values=frozenset().union(*(plan.taken for plan in plans)))


def _repeated(block: Block, copies: Mapping[str, str]) -> Block:
    """Return a block as a forward sweep repeats it: without stores, prints and asserts, except accesses to copies."""
    kept = (without_effect(stmt, copies) for stmt in block)
    return tuple(map_blocks(stmt, lambda inner: _repeated(inner, copies)) for stmt in kept if stmt is not None)
