"""This module lets a grad kernel read copies, made before the launch, of the arrays that its kernel overwrites.

    y[i] = 2 x[i];  x[i] = exp(x[i])        forward sweep:  %1 = load x.before[i]; %2 = exp %1; store x.before[i], %2

Memory as the kernel left it no longer holds these values. Where the state before the launch is known, the forward sweep
of a task reads the arrays from a copy of that state and repeats its stores in the copy, so that every load finds the
value that it found in the kernel. A task must start from the state before that task. So each task has a copy of its
own, on which the tasks before it run first. Loads that may be overwritten are never recomputed in the reverse sweep:
their values are kept or saved like any other value.

Only what the order of the text decides can be repeated. A load whose element another iteration of a parallel loop
overwrites stays refused. (Where another iteration only may overwrite the element, marks decide, see `marks`.) The
result of an atomic on elements that iterations share stays refused too, and so does what was stored by means of that
result. `ordered_updates` makes kernels whose order is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.effects import arrays_written
from ..ir.kernels import Kernel, Param, Task
from ..ir.roles import ACCESSES, ARRAY_READS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType
from ..ir.walk import map_blocks, replace_fields, walk_task
from .order_dependence import unordered_arrays
from .risk import Risk

SUFFIX = ".before"


@dataclass(frozen=True)
class BeforeCopies:
    """Hold the names of the copies, taken before the launch, that each task of a grad kernel reads.

    Attributes:
        tasks: For each task of the kernel, the name of the copy of each array. It is empty if there are no copies.
        prelude: The same mapping for the tasks that compute the temporaries again.
    """

    tasks: tuple[Mapping[str, str], ...] = ()
    prelude: Mapping[str, str] = field(default_factory=dict)

    def of(self, task: int) -> Mapping[str, str]:
        """Return, for each copied array, the name of the copy that task `task` accesses in place of the array."""
        return self.tasks[task] if self.tasks else {}

    @property
    def names(self) -> dict[str, str]:
        """Return a mapping from the name of each copy to the array that was copied."""
        return {copy: array for found in (*self.tasks, self.prelude) for array, copy in found.items()}


def make_copies(kernel: Kernel, arrays: Collection[str]) -> BeforeCopies:
    """Return the names of the copies by which tasks read the given arrays as they were before the launch.

    The copy of x for the first task that reads x is named `x.before`. The copies for later tasks are named `x.before2`
    and so on.
    """
    taken = {p.name for p in kernel.params} | {t.name for t in kernel.temps}
    made: list[dict[str, str]] = []
    # The last entry, without a task, stands for the prelude: it repeats all tasks to make the temporaries again.
    for t, task in [*enumerate(kernel.tasks), *([(len(kernel.tasks), None)] if kernel.temps else [])]:
        read = set().union(*map(_read, kernel.tasks if task is None else (task,))) & set(arrays)
        read = _with_makers(kernel.tasks[:t], read, arrays)
        made.append({array: _unique(array, taken) for array in sorted(read)})
    return BeforeCopies(tuple(made[: len(kernel.tasks)]), made[-1] if kernel.temps else {})


def _with_makers(tasks: Iterable[Task], read: set[str], arrays: Collection[str]) -> set[str]:
    """Return `read` and the arrays in `arrays` from which tasks compute the arrays in `read`, directly or indirectly.

    These tasks are repeated on the copies, so there must be copies of all arrays that they read.
    """
    while True:
        makers = [t for t in tasks if not arrays_written(t.body).isdisjoint(read)]
        more = read | (set().union(*map(_read, makers)) & set(arrays))
        if more == read:
            return read
        read = more


def _unique(array: str, taken: set[str]) -> str:
    """Return a new name for a copy of the array, and add the name to `taken`."""
    number, name = 1, array + SUFFIX
    while name in taken:
        number += 1
        name = f"{array}{SUFFIX}{number}"
    taken.add(name)
    return name


def _read(task: Task) -> set[str]:
    """Return the names of the arrays from which a task reads elements."""
    return {s.array for s in walk_task(task) if isinstance(s, ARRAY_READS)}


def params(kernel: Kernel, copies: BeforeCopies) -> tuple[Param, ...]:
    """Return one array parameter without a gradient for each copy that a grad kernel reads."""
    types = kernel.array_types()
    return tuple(Param(copy, ArrayType(types[a].dtype, types[a].ndim)) for copy, a in copies.names.items())


def redirect_to_copies(block: Block, copies: Mapping[str, str]) -> Block:
    """Return the block with all accesses to the arrays in `copies` redirected to their copies."""
    return tuple(turned(stmt, copies) for stmt in block) if copies else block


def turned(stmt: Stmt, copies: Mapping[str, str]) -> Stmt:
    """Return the statement with its accesses to the arrays in `copies`, nested ones too, redirected to the copies."""
    stmt = map_blocks(stmt, lambda inner: redirect_to_copies(inner, copies))
    if isinstance(stmt, ACCESSES) and stmt.array in copies:
        return replace_fields(stmt, array=copies[stmt.array])
    return stmt


class RemovableRisks:
    """Find the loads at risk that are harmless under a tape, because a copy made before the launch holds the value."""

    def __init__(self, kernel: Kernel, own: Iterable[Collection[str]]) -> None:
        """Find the arrays whose contents may differ if the tasks are repeated in another order of iterations.

        Args:
            kernel: The kernel of stage structured that the copies are for.
            own: For each task, the arrays in which every iteration touches own elements only.
        """
        self._params = {p.name for p in kernel.params}
        self._own = list(own)
        self._unordered = [unordered_arrays(task, mine) for task, mine in zip(kernel.tasks, self._own)]
        self._returned: dict[Value, int] = {
            s.result: t for t, task in enumerate(kernel.tasks) for s in walk_task(task) if isinstance(s, n.Atomic)
        }

    def __contains__(self, risk: object) -> bool:
        return isinstance(risk, Risk) and self._is_cured(risk)

    def _is_cured(self, risk: Risk) -> bool:
        """Return True if a copy still holds the value that the kernel read from the array in this load at risk."""
        task = self._returned.get(risk.load.result)
        shared = task is not None and risk.load.array not in self._own[task]
        return not risk.distance and not shared and risk.load.array in self._params and not self._is_unordered(risk)

    def _is_unordered(self, risk: Risk) -> bool:
        """Return True if repeating the tasks up to the load in another iteration order may change the loaded value."""
        return any(risk.load.array in arrays for arrays in self._unordered[: risk.pairs[0].task + 1])
