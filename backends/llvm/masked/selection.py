"""Which iterations of a task need work at all, and how much: what a scan can tell before the body runs.

A task is gated if nothing in it has an effect but what stands in ifs of one condition, the gate, on one side, and that
is worth a scan. Its trip counts are known if the bounds of loops at the top of the body (or behind the gate) follow
from light statements before them. Both are hints: the body decides the gate again, and counts its rounds itself, so
the scan may be wrong about either as long as it lets every iteration pass that has something to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ....compiler.ir import nodes as n
from ....compiler.ir.nodes import Block, Stmt, Task, Value
from ....compiler.ir.ops import OPS
from ....compiler.ir.walk import operands, results, walk
from .uniform import Uniformity

LIGHT = (n.Const, n.Arg, n.Shape, n.Op, n.Cast, n.BitCast, n.Load, n.Random, n.Local, n.Get, n.Set, n.If)
"""Statements without effects that a scan may run; an if, where it contains no others."""

_SILENT = (*LIGHT, n.StackAlloca, n.LocalArray)
"""Statements that do nothing of their own when the gate is closed."""

WORTH = 40
"""Cost of a gated body, in additions, from which it is worth a scan; a loop always is."""


@dataclass(frozen=True)
class Gate:
    """A condition, and whether it is its truth or its falsehood that lets an iteration pass."""

    cond: Value
    opens: bool

    def guards(self, stmt: Stmt) -> bool:
        """Whether a statement has effects where the gate is open, and none where it is closed."""
        if not isinstance(stmt, n.If) or stmt.cond != self.cond or _is_silent(stmt):
            return False
        return all(map(_is_silent, stmt.orelse if self.opens else stmt.then))

    def inside(self, stmt: Stmt) -> Block:
        """What a statement does where the gate is open."""
        if not isinstance(stmt, n.If) or not self.guards(stmt):
            return (stmt,)
        return stmt.then if self.opens else stmt.orelse


@dataclass(frozen=True)
class Selection:
    """What a scan decides.

    before: statements ahead of the gate's first if; all of the body has to run where there is no gate. after: what
    runs behind the gate. deciding: the statements that the gate follows from. counting: those that the trip counts
    of `loops` follow from, which are run behind the gate. weight: cost of a round of these loops, in additions.
    """

    task: Task
    gate: Gate | None
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
    deciding = (_slice(before, [gate.cond]) if gate else None) or ()
    loops, counting = _loops(replace(task, body=(*before, *after)), linear)
    if gate is None and not loops:
        return None
    known = set(map(id, deciding))
    rest = tuple(s for s in counting if id(s) not in known)
    return Selection(task, gate, before, after, deciding, rest, loops, sum(map(_cost, loops)))


def _cost(stmt: Stmt) -> int:
    return sum(OPS[s.op].cost if isinstance(s, n.Op) else 1 for s in walk((stmt,)))


# ---- the gate -----------------------------------------------------------------------------------------------


def _gate(body: Block, u: Uniformity) -> Gate | None:
    """The one condition under which the body has effects, if it depends on data and guards enough."""
    loud = [s for s in body if not _is_silent(s)]
    if not loud or not isinstance(loud[0], n.If):
        return None
    gate = Gate(loud[0].cond, opens=not all(map(_is_silent, loud[0].then)))
    if not all(map(gate.guards, loud)):
        return None
    found = _slice(body[: body.index(loud[0])], [gate.cond])
    if found is None or not _depends_on_data(found, u):
        return None
    return gate if _is_heavy(loud) else None


def _is_silent(stmt: Stmt) -> bool:
    return all(isinstance(s, _SILENT) for s in walk((stmt,)))


def _is_heavy(ifs: Sequence[Stmt]) -> bool:
    loops = any(isinstance(s, (n.For, n.While)) for s in walk(tuple(ifs)))
    return loops or sum(map(_cost, ifs)) >= WORTH


def _opened(body: Block, gate: Gate | None) -> tuple[Block, Block]:
    """The body in front of the gate's first if, and what follows with the contents of its ifs in their place."""
    if gate is None:
        return (), body
    first = next(k for k, s in enumerate(body) if gate.guards(s))
    return body[:first], tuple(inner for s in body[first:] for inner in gate.inside(s))


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
        if all(s.array not in written for s in walk(found) if isinstance(s, n.Load)):
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
        inside = list(walk(tuple(taken)))
        if not all(isinstance(s, LIGHT) for s in inside):
            return None
        wanted.update(v for s in inside for v in operands(s))
        if any(isinstance(s, n.Random) for s in inside):
            wanted.update(s.result for s in walk(block) if isinstance(s, n.Random))
        names.update(s.var for s in inside if isinstance(s, (n.Get, n.Set)))
    return tuple(taken)


def _defines(stmt: Stmt, wanted: set[Value], names: set[str]) -> bool:
    """Whether a statement, or one inside, makes one of the values or changes one of the locals."""
    inside = walk((stmt,))
    return any(not wanted.isdisjoint(results(s)) or isinstance(s, (n.Local, n.Set)) and s.var in names for s in inside)


def _depends_on_data(statements: Block, u: Uniformity) -> bool:
    """Whether something differs by lane here but by the index: neighbours would not do the same."""
    inside = walk(statements)
    return any(isinstance(s, n.Random) or isinstance(s, n.Load) and not u.is_uniform(s.result) for s in inside)
