"""Tasks without adstacks that run over a list of the iterations that pass their gate, where that is worth it.

    for i: if active[i] > 0: (much work)      →      list the i that pass; for i of the list: (much work)

In place a warp works as long as one of its lanes does, so where passing iterations lie scattered, nearly all warps work
although few iterations pass. How many pass is not known before a launch without waiting for it, so each launch over a
list tells how many it found, by a word in memory of the host, and later ones decide by that:

    in place    min(32 · passing, iterations) · body
    by list     passing · body + iterations · scan + one more entry

in additions of one lane. The first launch makes a list if that could be worth it, and so does one in PROBE afterwards.
The word is a hint: a list that has no room for what passes is not used (code.py).
"""
from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Block, Kernel
from ...compiler.ir.ops import OPS
from ...compiler.ir.walk import walk
from ..llvm.layout import stack_allocas
from ..llvm.masked.function import lowered
from .policy import SPARSE
from .selection import gate_of

SCAN = 16
"""What reading the gate once more and a place in a list cost, beside what the gate is computed from."""

START = 1 << 26
"""What a GPU could compute while one more entry is started: 2.6 µs of 132 multiprocessors with 128 lanes at 1.5 GHz."""

TRIPS = 8
"""Of a loop of which nothing is known."""

DEAREST = 1 << 20
"""More than this a body does not count, so that products fit 64 bits."""

PROBE = 64


@dataclass(frozen=True)
class Costs:
    """Of one iteration of a gated task. body: behind the gate; scan: deciding whether it passes, and listing it."""

    body: int
    scan: int

    def is_worth_a_look(self, count: int) -> bool:
        """Whether a list of so many iterations could pay, if few pass."""
        return count * self.scan + START < count * self.body

    def room(self, count: int) -> int:
        """Entries of the list."""
        return count // SPARSE if self.is_worth_a_look(count) else 0


def costs_of(kernel: Kernel, index: int) -> Costs | None:
    """Of a gated task without adstacks; None of any other, and of one whose body is not dearer than a scan.

    A `continue` where nothing is to be done is a gate, too.
    """
    task = kernel.tasks[index]
    if any(stack_allocas(task)) or any(isinstance(s, n.Print) for s in walk(task.body)):
        return None
    task = lowered(kernel, index)
    found = gate_of(task)
    if found is None:
        return None
    consts = (s for s in walk(task.body) if isinstance(s, n.Const))
    numbers = {s.result: int(s.value) for s in consts if not s.result.type.is_real}
    body = min(_cost(found.after, numbers), DEAREST)
    scan = SCAN + _cost(found.deciding, numbers)
    return Costs(body, scan) if body > scan else None


def _cost(block: Block, numbers: dict[n.Value, int]) -> int:
    return sum(_cost_of(stmt, numbers) for stmt in block)


def _cost_of(stmt: n.Stmt, numbers: dict[n.Value, int]) -> int:
    """In additions. Of an if, both sides: lanes of a warp take either."""
    if isinstance(stmt, n.For):
        begin, end = numbers.get(stmt.begin), numbers.get(stmt.end)
        trips = TRIPS if begin is None or end is None else max(-(-(end - begin) // stmt.step), 0)
        return 1 + trips * (1 + _cost(stmt.body, numbers))
    if isinstance(stmt, n.While):
        return 1 + TRIPS * (1 + _cost(stmt.condition, numbers) + _cost(stmt.body, numbers))
    if isinstance(stmt, n.If):
        return 1 + _cost(stmt.then, numbers) + _cost(stmt.orelse, numbers)
    return OPS[stmt.op].cost if isinstance(stmt, n.Op) else 1
