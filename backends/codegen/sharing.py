"""This module decides which updates of a task must be atomic, and whether several threads are faster than one.

An update is plain where no other iteration's update can meet it: where those places of the index tuple in which all
updates of the array agree tell the iterations apart. What else may meet it is a load, which nothing orders, or a store,
which would be a race. A task runs on the launching thread alone if it prints, so that lines come in the order of
iterations and no worker waits for the interpreter, or if its contended updates would cost more than the threads save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...compiler.analysis.affine import Affine, IndexForms, is_own
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.nodes import STATEMENTS
from ...compiler.ir.ops import OPS
from ...compiler.ir.statement import Block, Stmt, Value
from ...compiler.ir.table import Table
from ...compiler.ir.walk import blocks, used_values, walk_task
from .prints import prints

ADDITION = 0.4
"""Nanoseconds of an operation of cost 1, one iteration at a time."""
TRIPS = 8
"""Assumed trip count of a loop whose trip count is not known."""
UPDATE = 1.0
"""Nanoseconds of a plain update."""
ATOMIC = 6.0
"""Nanoseconds that an atomic update takes longer than a plain one."""
CONTENDED = 20.0
"""Nanoseconds of an atomic update of an element that all threads update; the threads take turns."""
SPEEDUP = 8
"""Assumed ratio of the times of branching and masked code, except for updates."""
COMBINED = 16
"""Assumed number of updates of one element that masked code combines; the true number is its lanes, mostly more."""
WORTH = 0.8
"""Several threads pay if they take at most this part of the time of one thread."""

_COSTS: Table[type[Stmt], float] = Table(
    "sharing.costs",
    STATEMENTS.values(),
    about="estimated nanoseconds, to choose the number of threads",
    optional="the statement takes no time",
)
_COSTS.update(
    {
        n.Load: 0.5,
        n.Store: 0.5,
        n.Atomic: UPDATE,
        n.Cast: 0.4,
        n.Random: 8.0,
        n.StackPush: 1.0,
        n.StackTop: 0.5,
        n.StackTopAdjoint: 0.5,
        n.StackAccumulate: 1.0,
        n.GetElement: 0.5,
        n.SetElement: 0.5,
        n.LocalArray: 4.0,
    }
)


@dataclass(frozen=True)
class Sharing:
    """Represent how threads share a parallel task: which updates need not be atomic, and if several threads pay off.

    Attributes:
        compute: Estimated nanoseconds of an iteration without its atomic updates.
        updates: Estimated nanoseconds of the atomic updates of an iteration.
        plain: Arrays whose updates need not be atomic.
        pays: Several threads are faster than one.
    """

    compute: float
    updates: float
    plain: frozenset[str]
    pays: bool

    def nanoseconds(self, lanes: int) -> float:
        """Return the estimated nanoseconds of an iteration if the task runs with this number of lanes."""
        return self.compute / (1 if lanes == 1 else SPEEDUP) + self.updates


def share(task: Task, threads: int, masked: bool) -> Sharing:
    """Return how `threads` threads share a parallel task's iterations; `masked` is True if it runs as masked code."""
    forms = IndexForms(task)
    by_array: dict[str, list[n.Atomic]] = {}
    for stmt in walk_task(task):
        if isinstance(stmt, n.Atomic):
            by_array.setdefault(stmt.array, []).append(stmt)
    plain = frozenset(name for name, found in by_array.items() if _own(task, forms, found))
    atomic = {stmt for name, found in by_array.items() if name not in plain for stmt in found}
    # These updates of all iterations meet in one element, because no index varies.
    meeting = {stmt for stmt in atomic if not any(_varies(forms.form(v)) for v in stmt.indices)}
    # Branching code combines no updates, so all of them count as if their old value was read.
    used = used_values(walk_task(task)) if masked else {s.result for s in meeting}
    times = list(weighted_statements(task))
    updating = [(stmt, often) for stmt, often in times if stmt in atomic] if atomic else []
    compute = sum(often * _ordinary(stmt) for stmt, often in times if stmt not in atomic)
    updates = sum(often * UPDATE for _, often in updating)
    extra = sum(often * ATOMIC for stmt, often in updating if stmt not in meeting)
    turns = sum(often * _turn(stmt, used) for stmt, often in updating if stmt in meeting)
    alone = compute / (SPEEDUP if masked else 1) + updates
    # Threads share the extra time of atomic updates, but take turns at contended ones.
    pays = (alone + extra) / threads + turns < WORTH * alone and not prints(task)
    return Sharing(compute, updates, plain, pays)


def is_order_visible(task: Task, plain: frozenset[str], kept: Collection[n.Atomic] = ()) -> bool:
    """Return True if the results of a task may depend on the order in which its iterations update elements.

    Sums and products of reals round, and a statement that reads an old value sees the order.

    Args:
        task: Parallel task whose results are judged.
        plain: Arrays whose updates never meet.
        kept: Updates that are made in a fixed order anyway.
    """
    inside = list(walk_task(task))
    used = used_values(inside)
    return any(
        isinstance(s, n.Atomic) and s.array not in plain and s not in kept and (s.result in used or _order_shows(s))
        for s in inside
    )


def _order_shows(stmt: n.Atomic) -> bool:
    """Return True if an element's final value depends on the order of updates like `stmt`, as for sums of reals."""
    return stmt.op in ("exchange", "cas") or stmt.value.type.is_real and stmt.op in ("add", "mul")


def _turn(stmt: Stmt, used: set[Value]) -> float:
    """Return the estimated nanoseconds of an atomic update of an element that all threads update."""
    assert isinstance(stmt, n.Atomic)
    # Masked code combines updates whose old value nothing reads.
    return CONTENDED / (1 if stmt.result in used or stmt.expected is not None else COMBINED)


def _own(task: Task, forms: IndexForms, updates: list[n.Atomic]) -> bool:
    """Return True if each of the updates changes only own elements, which no other iteration touches."""
    tuples = [tuple(forms.form(v) for v in stmt.indices) for stmt in updates]
    alike = tuple(column[0] for column in zip(*tuples) if all(form == column[0] for form in column))
    return is_own(alike, task, forms)


def _varies(form: Affine) -> bool:
    """Return True if an affine index depends on a value of the iteration, not only on arguments and extents."""
    return any(isinstance(symbol, Value) for symbol in form.symbols())


def _trips(task: Task) -> dict[n.For, int]:
    """Return the trip counts of those loops of a task whose trip count is a known constant."""
    numbers = {s.result: int(s.value) for s in walk_task(task) if isinstance(s, n.Const) and s.result.type.is_int}
    return {
        s: max(0, (numbers[s.end] - numbers[s.begin]) // s.step)
        for s in walk_task(task)
        if isinstance(s, n.For) and s.begin in numbers and s.end in numbers
    }


def weighted_statements(task: Task) -> Iterator[tuple[Stmt, int]]:
    """Yield the statements of a task with the estimated number of executions in an iteration."""
    return _times(task.body, _trips(task), 1)


def _times(body: Block, trips: dict[n.For, int], often: int) -> Iterator[tuple[Stmt, int]]:
    """Yield the statements of a block with the estimated number of executions in an iteration of the task."""
    for stmt in body:
        yield stmt, often
        inner = blocks(stmt)
        if inner:
            more = trips.get(stmt, TRIPS) if isinstance(stmt, n.For) else TRIPS if isinstance(stmt, n.While) else 1
            for block in inner:
                yield from _times(block, trips, often * more)


def _ordinary(stmt: Stmt) -> float:
    """Return the estimated nanoseconds of a statement in branching code."""
    return OPS[stmt.op].cost * ADDITION if isinstance(stmt, n.Op) else _COSTS.get(type(stmt), 0.0)
