"""This module estimates if masked code of a task is faster than branching code; scattered accesses make it slower.

    for i in range(n):                      for i in range(n):
        for j in range(m):                      x.grad[index[i]] += y.grad[i]
            s += a[i, j]

On the left, one iteration goes along a row, which is the fastest way, but neighboring lanes are rows apart: each
element comes from another line of the cache, and from few of its sets if rows are a power of two long. On the right,
updates of elements that lanes may share are made one by one, through memory. Arithmetic is what lanes are good at.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.analysis.affine import IndexForms, extents
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.nodes import STATEMENTS
from ...compiler.ir.ops import OPS
from ...compiler.ir.roles import ACCESSES, CONSTANTS, LOOPS
from ...compiler.ir.statement import Block, Stmt, Value
from ...compiler.ir.table import Table
from ...compiler.ir.walk import blocks, operands, walk_task
from ..codegen.sharing import ADDITION, SPEEDUP, weighted_statements

AccessKind = str
"""Kind of an access: run, apart or across.

'run' is one run of memory for all lanes, or one element; 'apart', an element anywhere for each lane; 'across', like
'apart' where a loop inside goes along that axis.
"""

_ALONE = {
    ("run", n.Load): 0.15,
    ("run", n.Store): 0.15,
    ("run", n.Atomic): 0.3,
    ("apart", n.Load): 0.4,
    ("apart", n.Store): 0.4,
    ("apart", n.Atomic): 0.6,
    ("across", n.Load): 0.15,
    ("across", n.Store): 0.15,
    ("across", n.Atomic): 0.3,
}
_LANES = {
    ("run", n.Load): 0.04,
    ("run", n.Store): 0.04,
    ("run", n.Atomic): 0.08,
    ("apart", n.Load): 0.6,
    ("apart", n.Store): 0.9,
    ("apart", n.Atomic): 1.4,
    ("across", n.Load): 1.6,
    ("across", n.Store): 1.6,
    ("across", n.Atomic): 3.2,
}
"""Nanoseconds of an access of memory in the cache, for one iteration at a time and in a block of 64 lanes.

Measured on a processor with AVX-512 (AMD EPYC).
"""
_LANES_WITHOUT_MASKS = _LANES | {
    ("apart", n.Load): 1.2,
    ("apart", n.Store): 1.3,
    ("apart", n.Atomic): 2.2,
    ("across", n.Store): 2.0,
    ("across", n.Atomic): 3.6,
}
"""The same on a machine that keeps masks in vectors, in a block of 32 lanes, which are gathered and scattered singly.

Measured with AVX2: a copy of 4096 elements, one or four of them anywhere for each lane, less the copy of a run.
"""
OTHERS = 0.75
"""Branching code is chosen if it takes less than this part of the time of masked code: both times are estimates."""
_ORDINARY: Table[type[Stmt], float] = Table(
    "worth.costs",
    STATEMENTS.values(),
    about="estimated nanoseconds, to choose between branching code and code for lanes",
    optional="the statement takes no time",
)
_ORDINARY.update(
    {
        n.Cast: 0.6,
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

SEARCHING, TAKEN = 3.0, 0.5
"""Trips of a searching loop in masked code, for each one of a lane, and the share of its trips that take a branch.

Of 64 random numbers with a mean of two to four, the greatest is 2.4 to 3 times as great. A sum over the neighbors of
particles in a grid took 0.6 of the time of masked code in branching code.
"""

SHORT = 16
"""Iterations along the last axis below which a block is not cut at the end of a row."""

_PURE = (n.Op, n.Cast, n.BitCast, n.Within, n.Load)
"""Statements that give all lanes one value if their operands are the same in all lanes."""


def runs_along_rows(task: Task) -> bool:
    """Return True if the iterations of a block are neighbors along the last axis of the box."""
    if len(task.indices) == 1:
        return True
    begin, end = extents(task)[-1]
    return bool(begin.terms or end.terms) or end.constant - begin.constant >= SHORT


def is_profitable(task: Task, has_masks: bool) -> bool:
    """Return True if a parallel task is estimated to run faster as masked code.

    Args:
        task: The task.
        has_masks: True if the machine has registers for masks.
    """
    accesses, costs = _Accesses(task), _LANES if has_masks else _LANES_WITHOUT_MASKS
    alone = lanes = 0.0
    # Both walk the statements in one order. A table by statement would hash each one with all that it contains.
    for (stmt, often), (taken, waiting) in zip(weighted_statements(task), _shares(task.body, accesses), strict=True):
        if isinstance(stmt, ACCESSES):
            kind = accesses.kind(stmt)
            alone += often * taken * _ALONE[kind, type(stmt)]
            lanes += often * waiting * costs[kind, type(stmt)]
        else:
            time = OPS[stmt.op].cost * ADDITION if isinstance(stmt, n.Op) else _ORDINARY.get(type(stmt), 0.0)
            alone += often * taken * time
            lanes += often * waiting * time / SPEEDUP
    return alone >= OTHERS * lanes


def _shares(
    body: Block, accesses: _Accesses, is_inside: bool = False, taken: float = 1.0, waiting: float = 1.0
) -> Iterator[tuple[float, float]]:
    """Yield the factors of the time of each statement in branching code and in masked code.

    A loop inside a loop that begins elsewhere in each iteration, as one over the particles in the cells around a
    particle, searches. Lanes wait for the one with most trips, and do what only some find.

    Args:
        body: The statements.
        accesses: The classes of values of the task.
        is_inside: True inside a loop.
        taken: The factor in branching code.
        waiting: The factor in masked code; more than 1 inside a loop that searches.
    """
    for stmt in body:
        yield taken, waiting
        inner, more = taken, waiting
        if isinstance(stmt, n.For) and is_inside and accesses.varies(stmt.begin):
            more = SEARCHING
        elif isinstance(stmt, n.If) and waiting > 1 and accesses.varies(stmt.cond):
            inner = taken * TAKEN
        for block in blocks(stmt):
            yield from _shares(block, accesses, is_inside or isinstance(stmt, LOOPS), inner, more)


class _Accesses:
    """Classify the array accesses of a task by the distance of the elements that neighboring lanes reach.

    Lanes are neighbors along the last axis of the box. Where it is short, they go on along the other axes.
    """

    def __init__(self, task: Task) -> None:
        self.lane = task.indices[-1]
        self.forms = IndexForms(task)
        self.loops = {s.index for s in walk_task(task) if isinstance(s, n.For)}
        self._known: dict[Value, bool] = {
            self.lane: True,
            **dict.fromkeys(task.indices[:-1], not runs_along_rows(task)),
        }
        for loop in walk_task(task):
            if isinstance(loop, n.For):
                # Lanes that begin elsewhere are elsewhere in each trip.
                self._known[loop.index] = self.varies(loop.begin)

    def kind(self, stmt: n.Load | n.Store | n.Atomic) -> AccessKind:
        """Return "run" if neighboring lanes access the same or the next element, "across" if trips do, else "apart"."""
        if not stmt.indices:
            return "run"
        last = self.forms.form(stmt.indices[-1])
        if any(map(self.varies, stmt.indices[:-1])):
            return "across" if any(abs(last.coefficient(v)) == 1 for v in self.loops) else "apart"
        others = [s for s in last.symbols() if s != self.lane and isinstance(s, Value) and self.varies(s)]
        return "run" if not others and last.coefficient(self.lane) in (0, 1) else "apart"

    def varies(self, value: Value) -> bool:
        """Return True if a value may differ between lanes; locals are assumed to differ, and ends of loops are not."""
        pending = [value]
        # Operands are decided first, and without recursion: chains of sums may be longer than the interpreter's stack.
        while pending:
            stmt = self.forms.made.get(pending[-1])
            inputs = operands(stmt) if isinstance(stmt, _PURE) else ()
            missing = [v for v in inputs if v not in self._known]
            if not missing:
                top = pending.pop()
                self._known.setdefault(top, self._decided(stmt))
            pending += missing
        return self._known[value]

    def _decided(self, stmt: Stmt | None) -> bool:
        """Return True if a result may differ between lanes: an operand may differ, or the statement is not pure."""
        if stmt is None or isinstance(stmt, CONSTANTS):
            return False
        return not isinstance(stmt, _PURE) or any(self._known[v] for v in operands(stmt))
