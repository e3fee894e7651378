"""Put the tasks of a grad kernel in order: temporaries first, then a task for each task of the kernel, last to first.

A grad task starts from the state before its task. So in front of it, those earlier tasks are repeated that write arrays
of which the grad task reads copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ..ir.effects import arrays_written
from ..ir.kernels import Kernel, Task
from ..ir.statement import Value
from ..ir.walk import next_id
from .before_copies import BeforeCopies, redirect_to_copies
from .copier import Copier
from .plan import SavingPlan
from .risk import Risk
from .structure import task_prefix

Build = Callable[[int, int], tuple[Task, int]]
"""A function from the number of a task and a first free id to the grad task and the next free id."""


def in_order(
    kernel: Kernel,
    plans: list[SavingPlan],
    copies: BeforeCopies,
    at_risk: dict[Value, Risk],
    first_id: int,
    build: Build,
) -> Kernel:
    """Return the kernel with the tasks of its grad kernel in place of its own tasks.

    Args:
        kernel: The kernel, of stage structured.
        plans: The plan of each task.
        copies: The copies of the state before the launch.
        at_risk: The risks of loads, by the result of the load. The risks of repeated loads are added.
        first_id: Id of the first new value; no value of the kernel has it or a greater one.
        build: Function that builds the grad task of a task, for tasks through which derivatives flow.
    """
    raw = replace(kernel, tasks=_last_to_first(kernel, plans, copies, at_risk, first_id, build))
    return replace(raw, tasks=_temporaries(kernel, at_risk, next_id(raw), copies) + raw.tasks)


def _last_to_first(
    kernel: Kernel,
    plans: list[SavingPlan],
    copies: BeforeCopies,
    at_risk: dict[Value, Risk],
    first_id: int,
    build: Build,
) -> tuple[Task, ...]:
    """Return the grad tasks of a kernel, last to first, each after copies of the earlier tasks that it needs."""
    tasks: list[Task] = []
    for t, task in reversed(list(enumerate(kernel.tasks))):
        own = copies.of(t)
        # Draws are made again whether or not they are read, so they would keep a forward sweep that nothing needs.
        if not plans[t].reversed:
            tasks.append(replace(task, bounds=redirect_to_copies(task.bounds, own), body=()))
            continue
        if own:
            copier = Copier(first_id, own, at_risk, f"{task_prefix(kernel, t)}.earlier.")
            tasks += [copier.task(p) for p in kernel.tasks[:t] if writes_any(p, own)]
            first_id = copier.next_id
        made, first_id = build(t, first_id)
        tasks.append(made)
    return tuple(tasks)


def writes_any(task: Task, arrays: Collection[str]) -> bool:
    """Return True if the task writes any of these arrays."""
    return not arrays_written(task.body).isdisjoint(arrays)


def _temporaries(kernel: Kernel, at_risk: dict[Value, Risk], first_id: int, copies: BeforeCopies) -> tuple[Task, ...]:
    """Return the tasks that compute the temporaries of the kernel again, without its stores to arrays.

    Dead code removal leaves what the temporaries need. The copied tasks have values of their own, because a value is
    defined once in a kernel. If a load is at risk, its copy is recorded as at risk too.
    """
    temps = {t.name: t.name for t in kernel.temps}
    if not temps:
        return ()
    stored = {**temps, **copies.prelude}
    copier = Copier(first_id, stored, at_risk, "prelude.")
    return tuple(copier.task(t) for t in kernel.tasks if writes_any(t, stored))
