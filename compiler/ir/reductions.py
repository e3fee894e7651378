"""This module turns reductions of parallel loops to locals declared outside, such as `v = v + e`, into atomics.

Invariant: after `reduce_block`, no statement of the loop reads or writes a reduced local. If such an access remains,
the iterations of the loop depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from . import nodes as n
from .roles import SCALAR_USES
from .statement import Block, Stmt, Value
from .walk import map_blocks, operands, results, walk

REDUCTIONS = ("add", "min", "max")

MakeAtomic: TypeAlias = Callable[[n.Set, str, bool, Value], Block]
"""A function of this type returns the statements that replace a reduction.

Its arguments are the `set`, the kind of atomic, a flag that is True if the term is negated, and the term.
"""


def shared_locals(block: Block) -> set[str]:
    """Return the locals that a block writes but does not declare."""
    own = {s.var for s in walk(block) if isinstance(s, n.Local)}
    return {s.var for s in walk(block) if isinstance(s, n.Set)} - own


def carried_accesses(block: Block, names: set[str]) -> list[n.Get | n.Set]:
    """Return the reads and writes of the locals in `names` that are not part of a reduction such as `v = v + e`."""
    left = reduce_block(block, names, lambda *_: ())
    return [s for s in walk(left) if isinstance(s, SCALAR_USES) and s.var in names]


def reduce_block(block: Block, names: set[str], atomic: MakeAtomic) -> Block:
    """Replace each reduction into a local in `names` by an atomic, in this block and in nested blocks.

    A reduction is the sequence `g = get v; x = op(g, e); set v, x`.

    Args:
        block: statements of the loop.
        names: locals that the loop shares.
        atomic: function that returns the statements that replace a reduction.
    """
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
                # The read and the operation lose their only use, so they are removed together with the `set`.
                dropped |= {k for k, s in enumerate(block) if s is get or s is op}
                out.extend(atomic(stmt, kind, negated, term))
                continue
        out.append(map_blocks(stmt, lambda inner: reduce_block(inner, names, atomic)))
    removed = {id(block[k]) for k in dropped}
    return tuple(s for s in out if id(s) not in removed)


def _reduction(
    stmt: n.Set, made: dict[Value, Stmt], uses: dict[Value, int]
) -> tuple[Stmt, Stmt, str, bool, Value] | None:
    """Return (get, op, kind, negated, term) if a `set` completes a reduction `v = v op term`, else None.

    `get` and `op` are the other statements of the reduction, `kind` is the operation of the atomic that can replace it,
    and `negated` is True for a difference, which is the sum with the negated term.
    """
    op = made.get(stmt.value)
    if not isinstance(op, n.Op) or uses[op.result] != 1 or len(op.args) != 2:
        return None
    # A difference reduces only on its left: `v - e` adds -e to v, but `e - v` is no reduction.
    sides = [(0, 1)] if op.op == "sub" else [(0, 1), (1, 0)] if op.op in REDUCTIONS else []
    for own, other in sides:
        get = made.get(op.args[own])
        if isinstance(get, n.Get) and get.var == stmt.var and uses[get.result] == 1:
            return get, op, "add" if op.op == "sub" else op.op, op.op == "sub", op.args[other]
    return None
