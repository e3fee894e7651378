"""This module plans scans: code before a task's body that finds which iterations have work, and how much.

A task is gated if all its effects stand in `if` statements on one condition, the gate, with one truth value, and if
these statements cost enough to be worth a scan. The trip counts of its loops are known if the bounds of loops at the
top of the body (or after the gate) follow from light statements before them. Gate and trip counts are hints: the body
of the task computes both again. So the scan may be wrong as long as every iteration passes that has something to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...compiler.analysis.index_checks import index_checks
from ...compiler.analysis.uniformity import Uniformity
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.ops import OPS
from ...compiler.ir.roles import ARRAY_WRITES, LOOPS, SCALAR_ASSIGNMENTS, SCALAR_USES, VALUES
from ...compiler.ir.statement import Block, Stmt, Value
from ...compiler.ir.walk import operands, results, walk

LIGHT = (*VALUES, n.Load, n.Random, n.Local, n.Get, n.Set, n.If)
"""Statements without effects that a scan may run; an if only where it contains none but these."""

_SILENT = (*LIGHT, n.StackAlloca, n.LocalArray)
"""Statements that have no effect of their own when the gate is closed."""

WORTH = 40
"""Cost of a gated body, in additions, from which it is worth a scan; a loop always is."""


@dataclass(frozen=True)
class Gate:
    """Represent a gate by its condition and by the truth value with which an iteration passes it.

    Attributes:
        cond: Condition of the gate.
        opens: Value of the condition that lets an iteration pass.
    """

    cond: Value
    opens: bool

    def guards(self, stmt: Stmt) -> bool:
        """Return True if a statement is an `if` on the gate's condition without effects where the gate is closed."""
        if not isinstance(stmt, n.If) or stmt.cond != self.cond or _is_silent(stmt):
            return False
        return all(map(_is_silent, stmt.orelse if self.opens else stmt.then))

    def inside(self, stmt: Stmt) -> Block:
        """Return the block of an `if` on the gate that runs where the gate is open, or any other statement as it is."""
        if not isinstance(stmt, n.If) or not self.guards(stmt):
            return (stmt,)
        return stmt.then if self.opens else stmt.orelse


@dataclass(frozen=True)
class ScanPlan:
    """Represent the scan of a task: it computes the gate of each iteration and the trip counts of its loops.

    Attributes:
        task: The task, exits lowered.
        gate: Gate of the task, if it has one.
        before: Statements ahead of the gate's first if; empty where there is no gate.
        after: Statements after the gate; the whole body where there is no gate.
        deciding: Statements that the gate follows from.
        counting: Statements that the trip counts of `loops` follow from, which run after the gate.
        loops: Loops whose trip counts are known ahead.
        weight: Cost of a round of these loops, in additions.
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
        """Return the task without the ifs of its gate, for code that masks out lanes whose gate is closed."""
        return replace(self.task, body=(*self.before, *self.after))


def selection(task: Task, linear: bool) -> ScanPlan | None:
    """Return the scan plan of a task, or None if no gate or loop of the task is worth the cost of a scan.

    Args:
        task: Task whose exits are lowered.
        linear: True if lanes are neighbors along the last axis; see `Uniformity`.
    """
    u = Uniformity(task, linear)
    gate, deciding = _gate(task, u) or (None, ())
    before, after = _opened(task.body, gate)
    loops, counting = _loops(replace(task, body=(*before, *after)), linear)
    if gate is None and not loops:
        return None
    known = set(map(id, deciding))
    rest = tuple(s for s in counting if id(s) not in known)
    return ScanPlan(task, gate, before, after, deciding, rest, loops, sum(map(_cost, loops)))


def _cost(stmt: Stmt) -> int:
    """Return the cost of a statement with all it contains, in additions."""
    return sum(OPS[s.op].cost if isinstance(s, n.Op) else 1 for s in walk((stmt,)))


# ---- the gate -----------------------------------------------------------------------------------------------


def _gate(task: Task, u: Uniformity) -> tuple[Gate, Block] | None:
    """Return the gate of a task and the statements that compute its condition, or None if it has no gate.

    A gate is the one condition under which the body has effects; it depends on data and guards enough.
    """
    loud = [s for s in task.body if not _is_silent(s)]
    if not loud or not isinstance(loud[0], n.If):
        return None
    gate = Gate(loud[0].cond, opens=not all(map(_is_silent, loud[0].then)))
    if not all(map(gate.guards, loud)) or not _is_heavy(loud):
        return None
    before, after = _opened(task.body, gate)
    found = _slice(before, [gate.cond])
    if found is None or not _depends_on_data(found, u):
        return None
    astray = _astray(task, gate, found)
    behind = {id(s) for s in walk(after)}
    deciding = (
        None if any(id(s) in behind for s in astray) else _slice(before, [gate.cond, *(s.result for s in astray)])
    )
    return None if deciding is None else (gate, deciding)


def _astray(task: Task, gate: Gate, deciding: Block) -> list[n.Load]:
    """Return the loads that run even where the gate is closed, do not decide it, and may have an index outside.

    An iteration whose gate is closed runs them, so such a load may end the launch although nobody uses its value. A
    scan that runs the load too, which costs a comparison, loses no error; it can run only loads ahead of the gate.
    """
    opened = (s for stmt in task.body if gate.guards(stmt) for s in walk((stmt,)))
    known = {id(s) for s in (*walk(deciding), *opened)}
    loads = [s for s in walk(task.body) if isinstance(s, n.Load) and id(s) not in known]
    if not loads:
        return []
    checks = index_checks(task, hoist=False, learns=False)
    return [s for s in loads if checks.of(s)]


def _is_silent(stmt: Stmt) -> bool:
    """Return True if a statement, with all it contains, has no effect."""
    return all(isinstance(s, _SILENT) for s in walk((stmt,)))


def _is_heavy(ifs: Sequence[Stmt]) -> bool:
    """Return True if the ifs of a gate cost enough to be worth a scan."""
    loops = any(isinstance(s, LOOPS) for s in walk(tuple(ifs)))
    return loops or sum(map(_cost, ifs)) >= WORTH


def _opened(body: Block, gate: Gate | None) -> tuple[Block, Block]:
    """Return the statements of a body before the gate's first `if`, and the statements from there on without its ifs.

    In the rest, the contents of the gate's ifs stand in place of these ifs.
    """
    if gate is None:
        return (), body
    first = next(k for k, s in enumerate(body) if gate.guards(s))
    return body[:first], tuple(inner for s in body[first:] for inner in gate.inside(s))


# ---- trip counts --------------------------------------------------------------------------------------------


def _loops(task: Task, linear: bool) -> tuple[tuple[n.For, ...], Block]:
    """Return the top-level loops whose trip counts a scan can compute, and the statements that compute the counts.

    Only loops whose bounds differ by data count.
    """
    u, body = Uniformity(task, linear), task.body
    written = {s.array for s in walk(body) if isinstance(s, ARRAY_WRITES)}
    loops: dict[tuple[Value, Value, int], n.For] = {}
    needed: set[int] = set()
    for at, stmt in enumerate(body):
        if not isinstance(stmt, n.For) or u.is_uniform(stmt.begin, stmt.end) or stmt.stop is not None:
            continue
        found = _slice(body[:at], [stmt.begin, stmt.end])
        if found is None or not _depends_on_data(found, u):
            continue
        # The task must not write what the bounds are found from: an index read too early might lead anywhere.
        if all(s.array not in written for s in walk(found) if isinstance(s, n.Load)):
            loops.setdefault((stmt.begin, stmt.end, stmt.step), stmt)
            needed.update(map(id, found))
    return tuple(loops.values()), tuple(s for s in body if id(s) in needed)


# ---- slices -------------------------------------------------------------------------------------------------


def _slice(block: Block, values: Iterable[Value]) -> Block | None:
    """Return the statements of a block that compute the given values, or None if a scan cannot run one of them."""
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
        # A draw is numbered by the draws before it, so all draws of the block are taken together.
        if any(isinstance(s, n.Random) for s in inside):
            wanted.update(s.result for s in walk(block) if isinstance(s, n.Random))
        names.update(s.var for s in inside if isinstance(s, SCALAR_USES))
    return tuple(taken)


def _defines(stmt: Stmt, wanted: set[Value], names: set[str]) -> bool:
    """Return True if a statement, or one inside it, defines a value in `wanted` or writes a local in `names`."""
    inside = walk((stmt,))
    return any(
        not wanted.isdisjoint(results(s)) or isinstance(s, SCALAR_ASSIGNMENTS) and s.var in names for s in inside
    )


def _depends_on_data(statements: Block, u: Uniformity) -> bool:
    """Return True if the statements contain a draw or a load that differs between the lanes of a block."""
    inside = walk(statements)
    # What differs by the index alone is nearly the same for neighbors, so a block of neighbors wastes little.
    return any(isinstance(s, n.Random) or isinstance(s, n.Load) and not u.is_uniform(s.result) for s in inside)


def gate_of(task: Task) -> ScanPlan | None:
    """Return the scan plan of a parallel task that has a gate, or None for other tasks."""
    found = selection(task, linear=True) if task.is_parallel else None
    return found if found is not None and found.gate is not None else None
