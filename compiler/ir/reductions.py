"""Reductions into a local that a parallel loop shares: `v = v + e`, `v = min(v, e)`, which become atomics.

Invariant: after `reduce_block` a reduced local is read and written by no statement of the loop; where one is left,
its iterations depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from . import nodes as n
from .nodes import Block, Stmt, Value
from .walk import map_blocks, operands, results, walk

REDUCTIONS = ("add", "min", "max")

MakeAtomic: TypeAlias = Callable[[n.Set, str, bool, Value], Block]
"""Statements for a reduction: the `set`, the kind of atomic, whether the term is negated, the term."""


def shared_locals(block: Block) -> set[str]:
    """Locals of an enclosing block that the block writes."""
    own = {s.var for s in walk(block) if isinstance(s, n.Local)}
    return {s.var for s in walk(block) if isinstance(s, n.Set)} - own


def carried(block: Block, names: set[str]) -> list[n.Get | n.Set]:
    """Accesses of these locals that are no reduction."""
    left = reduce_block(block, names, lambda *_: ())
    return [s for s in walk(left) if isinstance(s, (n.Get, n.Set)) and s.var in names]


def reduce_block(block: Block, names: set[str], atomic: MakeAtomic) -> Block:
    """Replace `g = get v; x = op(g, e); set v, x` by an atomic, in this block and below."""
    uses: dict[Value, int] = {}
    for stmt in walk(block):
        for value in operands(stmt):
            uses[value] = uses.get(value, 0) + 1
    made = {v: s for s in block for v in results(s)}
    out: list[Stmt] = []
    dropped: set[int] = set()
    for stmt in block:
        if isinstance(stmt, n.Set) and stmt.var in names:
            found = _reduction(stmt, made, uses)
            if found:
                get, op, kind, negated, term = found
                dropped |= {k for k, s in enumerate(block) if s is get or s is op}
                out.extend(atomic(stmt, kind, negated, term))
                continue
        out.append(map_blocks(stmt, lambda inner: reduce_block(inner, names, atomic)))
    removed = {id(block[k]) for k in dropped}
    return tuple(s for s in out if id(s) not in removed)


def _reduction(
    stmt: n.Set, made: dict[Value, Stmt], uses: dict[Value, int]
) -> tuple[Stmt, Stmt, str, bool, Value] | None:
    """(get, op, kind, negated, term) of `set v, op(get v, term)`; None if it is something else."""
    op = made.get(stmt.value)
    if not isinstance(op, n.Op) or uses[op.result] != 1 or len(op.args) != 2:
        return None
    sides = [(0, 1)] if op.op == "sub" else [(0, 1), (1, 0)] if op.op in REDUCTIONS else []
    for own, other in sides:
        get = made.get(op.args[own])
        if isinstance(get, n.Get) and get.var == stmt.var and uses[get.result] == 1:
            return get, op, "add" if op.op == "sub" else op.op, op.op == "sub", op.args[other]
    return None
