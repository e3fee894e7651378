"""Which iterations of a task need work at all, and how much: what a scan can tell before the body runs.

A task is gated if nothing in it has an effect but what stands in ifs of one condition, the gate, and that is worth a
scan. Its trip counts are known if the bounds of loops at the top of the body (or behind the gate) follow from light
statements before them. Both are hints: the body decides the gate again, and counts its rounds itself, so the scan
may be wrong about either as long as it lets every iteration pass that has something to do.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ....compiler.ir import nodes as n
from ....compiler.ir.nodes import Block, Stmt, Task, Value
from ....compiler.ir.ops import OPS
from ....compiler.ir.walk import operands, results, walk
from .uniform import Uniformity

LIGHT = (n.Const, n.Arg, n.Shape, n.Op, n.Cast, n.BitCast, n.Load, n.Random, n.Local, n.Get, n.Set)
"""Statements without effects that a scan may run."""

_SILENT = (*LIGHT, n.StackAlloca, n.LocalArray)
"""Statements that do nothing of their own when the gate is closed."""

WORTH = 40
"""Cost of a gated body, in additions, from which it is worth a scan; a loop always is."""


@dataclass(frozen=True)
class Selection:
    """What a scan decides.

    before: statements ahead of the gate's first if; all of the body has to run where there is no gate. after: what
    runs behind the gate. deciding: the statements that the gate follows from. counting: those that the trip counts
    of `loops` follow from, which are run behind the gate. weight: cost of a round of these loops, in additions.
    """

    task: Task
    gate: Value | None
    before: Block
    after: Block
    deciding: Block
    counting: Block
    loops: tuple[n.For, ...]
    weight: int

    @property
    def flat(self) -> Task:
        """The task with the gate taken out: all that is left of it is a narrower mask behind `before`."""
        return replace(self.task, body=(*self.before, *self.after))


def selection(task: Task, linear: bool) -> Selection | None:
    """What a scan can decide of a task whose exits are lowered; None if that is nothing, or nothing worth it."""
    u = Uniformity(task, linear)
    gate = _gate(task.body, u)
    before, after = _opened(task.body, gate)
    deciding = _slice(before, [gate]) if gate else ()
    loops, counting = _loops(replace(task, body=(*before, *after)), linear)
    if gate is None and not loops:
        return None
    known = set(map(id, deciding))
    rest = tuple(s for s in counting if id(s) not in known)
    return Selection(task, gate, before, after, deciding or (), rest, loops, sum(map(_cost, loops)))


def _cost(stmt: Stmt) -> int:
    return sum(OPS[s.op].cost if isinstance(s, n.Op) else 1 for s in walk((stmt,)))


# ---- the gate -----------------------------------------------------------------------------------------------


def _gate(body: Block, u: Uniformity) -> Value | None:
    """The one condition under which the body has effects, if it depends on data and guards enough."""
    ifs = [s for s in body if isinstance(s, n.If)]
    conditions = {s.cond for s in ifs}
    if len(conditions) != 1 or any(s.orelse for s in ifs):
        return None
    if not all(isinstance(s, (n.If, *_SILENT)) for s in body):
        return None
    (gate,) = conditions
    found = _slice(body[: body.index(ifs[0])], [gate])
    if found is None or not _depends_on_data(found, u):
        return None
    return gate if _is_heavy(ifs) else None


def _is_heavy(ifs: Sequence[n.If]) -> bool:
    loops = any(isinstance(s, (n.For, n.While)) for s in walk(tuple(ifs)))
    return loops or sum(map(_cost, ifs)) >= WORTH


def _opened(body: Block, gate: Value | None) -> tuple[Block, Block]:
    """The body in front of the gate's first if, and what follows with the contents of its ifs in their place."""
    if gate is None:
        return (), body
    first = next(k for k, s in enumerate(body) if isinstance(s, n.If))
    after: list[Stmt] = []
    for stmt in body[first:]:
        after += stmt.then if isinstance(stmt, n.If) else (stmt,)
    return body[:first], tuple(after)


# ---- trip counts --------------------------------------------------------------------------------------------


def _loops(task: Task, linear: bool) -> tuple[tuple[n.For, ...], Block]:
    """Loops at the top of the body whose bounds differ by data and can be found ahead, and the statements for that.

    What they are found from must not be written by the task: an index read too early might lead anywhere.
    """
    u, body = Uniformity(task, linear), task.body
    written = {s.array for s in walk(body) if isinstance(s, (n.Store, n.Atomic))}
    loops: dict[tuple[Value, Value, int], n.For] = {}
    needed: set[int] = set()
    for at, stmt in enumerate(body):
        if not isinstance(stmt, n.For) or u.is_uniform(stmt.begin, stmt.end) or stmt.stop is not None:
            continue
        found = _slice(body[:at], [stmt.begin, stmt.end])
        if found is None or not _depends_on_data(found, u):
            continue
        if all(s.array not in written for s in found if isinstance(s, n.Load)):
            loops.setdefault((stmt.begin, stmt.end, stmt.step), stmt)
            needed.update(map(id, found))
    return tuple(loops.values()), tuple(s for s in body if id(s) in needed)


# ---- slices -------------------------------------------------------------------------------------------------


def _slice(block: Block, values: Iterable[Value]) -> Block | None:
    """The statements of a block that the values follow from, in order; None if that takes more than light ones.

    A draw is numbered by those before it, so with one go all.
    """
    wanted: set[Value] = set(values)
    names: set[str] = set()
    taken: list[Stmt] = []
    before = -1
    while before != len(wanted) + len(names):
        before = len(wanted) + len(names)
        taken = [s for s in block if _defines(s, wanted, names)]
        if not all(isinstance(s, LIGHT) for s in taken):
            return None
        wanted.update(v for s in taken for v in operands(s))
        if any(isinstance(s, n.Random) for s in taken):
            wanted.update(s.result for s in walk(block) if isinstance(s, n.Random))
        names.update(s.var for s in taken if isinstance(s, n.Get))
    return tuple(taken)


def _defines(stmt: Stmt, wanted: set[Value], names: set[str]) -> bool:
    """Whether a statement, or one inside, makes one of the values or changes one of the locals."""
    inside = walk((stmt,))
    return any(
        not wanted.isdisjoint(results(s)) or isinstance(s, (n.Local, n.Set)) and s.var in names for s in inside
    )


def _depends_on_data(statements: Block, u: Uniformity) -> bool:
    """Whether something differs by lane here but by the index: neighbours would not do the same."""
    return any(isinstance(s, n.Random) or isinstance(s, n.Load) and not u.is_uniform(s.result) for s in statements)
