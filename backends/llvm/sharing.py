"""What threads of one launch do to a task: which updates must be atomic, and whether several threads pay at all.

An update is plain where no other iteration's update can meet it: where those places of the index tuple in which all
updates of the array agree tell the iterations apart. What else may meet it is a load, which nothing orders, or a store,
which would be a race. A task runs on the launching thread alone if it prints, so that lines come in the order of
iterations and no worker waits for the interpreter, or if its updates in turn would cost more than the threads save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Block, Stmt, Task, Value
from ...compiler.ir.ops import OPS
from ...compiler.ir.walk import blocks, used_values, walk_task
from ...compiler.passes.affine import Affine, IndexForms, is_own
from ..prints import prints

ADDITION = 0.4
"""Nanoseconds of an operation of cost 1, one iteration at a time."""
TRIPS = 8
"""Iterations that a loop of which nothing is known is taken to have."""
UPDATE = 1.0
"""Nanoseconds of an update."""
ATOMIC = 6.0
"""Nanoseconds that an update takes longer when it is atomic."""
CONTENDED = 20.0
"""Nanoseconds of an atomic update of an element that all threads update; they take turns."""
SPEEDUP = 8
"""How much faster masked code is taken to be, but for updates."""
COMBINED = 16
"""Updates of one element that masked code makes at once; it does as many as it has lanes, mostly more."""
WORTH = 0.8
"""Part of the time on one thread that may be left for several threads to pay."""

_COSTS: dict[type[Stmt], float] = {
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


@dataclass(frozen=True)
class Sharing:
    """compute, updates: nanoseconds of an iteration, estimated, without its atomic updates and of these. plain: arrays
    whose updates need not be atomic. pays: threads help.
    """

    compute: float
    updates: float
    plain: frozenset[str]
    pays: bool

    def nanoseconds(self, lanes: int) -> float:
        """Of an iteration in code of so many lanes."""
        return self.compute / (1 if lanes == 1 else SPEEDUP) + self.updates


def share(task: Task, threads: int, masked: bool) -> Sharing:
    """How a parallel task behaves under so many threads. masked: it is taken to run as masked code."""
    forms = IndexForms(task)
    by_array: dict[str, list[n.Atomic]] = {}
    for stmt in walk_task(task):
        if isinstance(stmt, n.Atomic):
            by_array.setdefault(stmt.array, []).append(stmt)
    plain = frozenset(name for name, found in by_array.items() if _own(task, forms, found))
    atomic = {stmt for name, found in by_array.items() if name not in plain for stmt in found}
    meeting = {stmt for stmt in atomic if not any(_varies(forms.form(v)) for v in stmt.indices)}
    used = used_values(walk_task(task)) if masked else {s.result for s in meeting}
    times = list(often_run(task))
    updating = [(stmt, often) for stmt, often in times if stmt in atomic] if atomic else []
    compute = sum(often * _ordinary(stmt) for stmt, often in times if stmt not in atomic)
    updates = sum(often * UPDATE for _, often in updating)
    extra = sum(often * ATOMIC for stmt, often in updating if stmt not in meeting)
    turns = sum(often * _turn(stmt, used) for stmt, often in updating if stmt in meeting)
    alone = compute / (SPEEDUP if masked else 1) + updates
    pays = (alone + extra) / threads + turns < WORTH * alone and not prints(task)
    return Sharing(compute, updates, plain, pays)


def order_shows(task: Task, plain: frozenset[str], kept: Collection[n.Atomic] = ()) -> bool:
    """Whether another order of the task's updates might give other bits: real sums and products round, and whoever
    asks for an old value sees the order. kept: updates that are made in a fixed order anyway.
    """
    inside = list(walk_task(task))
    used = used_values(inside)
    return any(
        isinstance(s, n.Atomic) and s.array not in plain and s not in kept and (s.result in used or _order_shows(s))
        for s in inside
    )


def _order_shows(stmt: n.Atomic) -> bool:
    return stmt.op in ("exchange", "cas") or stmt.value.type.is_real and stmt.op in ("add", "mul")


def _turn(stmt: Stmt, used: set[Value]) -> float:
    """What an update of an element that all iterations share costs; those whose old value no one asks for combine."""
    assert isinstance(stmt, n.Atomic)
    return CONTENDED / (1 if stmt.result in used or stmt.expected is not None else COMBINED)


def _own(task: Task, forms: IndexForms, updates: list[n.Atomic]) -> bool:
    """Whether all updates of an array are of the iteration's own elements."""
    tuples = [tuple(forms.form(v) for v in stmt.indices) for stmt in updates]
    alike = tuple(column[0] for column in zip(*tuples) if all(form == column[0] for form in column))
    return is_own(alike, task, forms)


def _varies(form: Affine) -> bool:
    """Whether an index may differ between iterations or within one."""
    return any(isinstance(symbol, Value) for symbol in form.symbols())


def _trips(task: Task) -> dict[n.For, int]:
    """Iterations of the loops of which they are known."""
    numbers = {s.result: int(s.value) for s in walk_task(task) if isinstance(s, n.Const) and s.result.type.is_int}
    return {
        s: max(0, (numbers[s.end] - numbers[s.begin]) // s.step)
        for s in walk_task(task)
        if isinstance(s, n.For) and s.begin in numbers and s.end in numbers
    }


def often_run(task: Task) -> Iterator[tuple[Stmt, int]]:
    """The statements of a task with how often each is taken to run in an iteration."""
    return _times(task.body, _trips(task), 1)


def _times(body: Block, trips: dict[n.For, int], often: int) -> Iterator[tuple[Stmt, int]]:
    """Statements of a block with how often each runs in an iteration of the task."""
    for stmt in body:
        yield stmt, often
        inner = blocks(stmt)
        if inner:
            more = trips.get(stmt, TRIPS) if isinstance(stmt, n.For) else TRIPS if isinstance(stmt, n.While) else 1
            for block in inner:
                yield from _times(block, trips, often * more)


def _ordinary(stmt: Stmt) -> float:
    return OPS[stmt.op].cost * ADDITION if isinstance(stmt, n.Op) else _COSTS.get(type(stmt), 0.0)
