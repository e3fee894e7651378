"""Gradients of kernels that overwrite what their own reverse sweep reads: on copies of the state before the launch.

    y[i] = 2 x[i];  x[i] = exp(x[i])        forward sweep:  %1 = load x.before[i]; %2 = exp %1; store x.before[i], %2

Memory as the kernel left it no longer holds such values. Where the state before the launch is known, the forward sweep
of a task reads these arrays from a copy of it and repeats its stores there, so that every load finds what the kernel
found. A task starts from the state before that task: each has a copy of its own, on which the tasks before it run
first. Loads that may be overwritten are never made again in the reverse sweep; they are kept or saved like any value.

Only what the order of the text decides can be repeated: a load that another iteration of a parallel loop overwrites
stays refused (where it only may, marks tell, see `marks`), and so do what an atomic returned where iterations share
elements and what was stored by its means. `returned` makes kernels of which the order is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..ir import nodes as n
from ..ir.effects import arrays_written
from ..ir.nodes import Block, Kernel, Param, Stmt, Task, Value
from ..ir.types import ArrayType
from ..ir.walk import changed, map_blocks, walk_task
from .disorder import unordered_arrays
from .risk import Risk

SUFFIX = ".before"


@dataclass(frozen=True)
class Copies:
    """Copies of the state before the launch, by task: {array: name of the copy}. prelude: those of the temporaries."""

    tasks: tuple[Mapping[str, str], ...] = ()
    prelude: Mapping[str, str] = field(default_factory=dict)

    def of(self, task: int) -> Mapping[str, str]:
        """Those of one task."""
        return self.tasks[task] if self.tasks else {}

    @property
    def names(self) -> dict[str, str]:
        """The array behind every copy."""
        return {copy: array for found in (*self.tasks, self.prelude) for array, copy in found.items()}


def make_copies(kernel: Kernel, arrays: Collection[str]) -> Copies:
    """Copies for the tasks that read these arrays; the first task that does takes the plain name."""
    taken = {p.name for p in kernel.params} | {t.name for t in kernel.temps}
    made: list[dict[str, str]] = []
    for t, task in [*enumerate(kernel.tasks), *([(len(kernel.tasks), None)] if kernel.temps else [])]:
        read = set().union(*map(_read, kernel.tasks if task is None else (task,))) & set(arrays)
        read = _with_makers(kernel.tasks[:t], read, arrays)
        made.append({array: _unique(array, taken) for array in sorted(read)})
    return Copies(tuple(made[: len(kernel.tasks)]), made[-1] if kernel.temps else {})


def _with_makers(tasks: Iterable[Task], read: set[str], arrays: Collection[str]) -> set[str]:
    """These arrays, and those of `arrays` that earlier tasks read, which run on the copies to make what is in them."""
    while True:
        makers = [t for t in tasks if not arrays_written(t.body).isdisjoint(read)]
        more = read | (set().union(*map(_read, makers)) & set(arrays))
        if more == read:
            return read
        read = more


def _unique(array: str, taken: set[str]) -> str:
    number, name = 1, array + SUFFIX
    while name in taken:
        number += 1
        name = f"{array}{SUFFIX}{number}"
    taken.add(name)
    return name


def _read(task: Task) -> set[str]:
    return {s.array for s in walk_task(task) if isinstance(s, (n.Load, n.Atomic))}


def params(kernel: Kernel, copies: Copies) -> tuple[Param, ...]:
    """A parameter for each copy."""
    types = kernel.array_types()
    return tuple(Param(copy, ArrayType(types[a].dtype, types[a].ndim)) for copy, a in copies.names.items())


def on_copies(block: Block, copies: Mapping[str, str]) -> Block:
    """The block with its accesses to these arrays turned to their copies."""
    return tuple(turned(stmt, copies) for stmt in block) if copies else block


def turned(stmt: Stmt, copies: Mapping[str, str]) -> Stmt:
    """A statement, with its blocks, on the copies."""
    stmt = map_blocks(stmt, lambda inner: on_copies(inner, copies))
    if isinstance(stmt, (n.Load, n.Store, n.Atomic)) and stmt.array in copies:
        return changed(stmt, array=copies[stmt.array])
    return stmt


class Repeatable:
    """Which risks copies cure."""

    def __init__(self, kernel: Kernel, own: Iterable[Collection[str]]) -> None:
        """own: for each task, the arrays of which every iteration touches elements of its own alone."""
        self._params = {p.name for p in kernel.params}
        self._own = list(own)
        self._unordered = [unordered_arrays(task, mine) for task, mine in zip(kernel.tasks, self._own)]
        self._returned: dict[Value, int] = {
            s.result: t for t, task in enumerate(kernel.tasks) for s in walk_task(task) if isinstance(s, n.Atomic)
        }

    def __contains__(self, risk: object) -> bool:
        return isinstance(risk, Risk) and self._is_cured(risk)

    def _is_cured(self, risk: Risk) -> bool:
        task = self._returned.get(risk.load.result)
        shared = task is not None and risk.load.array not in self._own[task]
        return not risk.distance and not shared and risk.load.array in self._params and not self._is_unordered(risk)

    def _is_unordered(self, risk: Risk) -> bool:
        """Whether the tasks up to the load, run again in another order, might leave something else for it."""
        return any(risk.load.array in arrays for arrays in self._unordered[: risk.pairs[0].task + 1])
