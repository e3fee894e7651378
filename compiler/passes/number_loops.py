"""This pass adds a trip count to while loops and to for loops that may end early, for the reverse sweep.

    while { .. } test %1 until brk { .. }    →    while { .. } test %1 until brk trips %9: i32 { .. }

Loops that have a trip count already stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import i32, i64
from ..ir.walk import NESTED, kept_block, map_blocks, next_id, walk, walk_kernel


def number_loops(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `structured` with trip counts added to loops; the stage stays the same."""
    if NESTED.isdisjoint(map(type, walk_kernel(kernel))):
        return kernel
    fresh = next_id(kernel)

    def visit(block: Block) -> Block:
        return kept_block(block, [number(map_blocks(s, visit)) for s in block])

    def number(stmt: Stmt) -> Stmt:
        nonlocal fresh
        if isinstance(stmt, LOOPS) and stmt.trips is None and (isinstance(stmt, n.While) or stmt.stop):
            fresh += 1
            return replace(stmt, trips=Value(fresh - 1, i64 if _is_wide(stmt) else i32))
        return stmt

    return replace(kernel, tasks=tuple(replace(t, body=visit(t.body)) for t in kernel.tasks))


def _is_wide(loop: n.For | n.While) -> bool:
    """Return True if the trips of a loop are counted in 64 bits.

    That holds for a 64-bit index, and for a while in which 64-bit integers are compared. For every other loop that ends
    within seconds 32 bits are enough, and lanes count them in half the time.
    """
    if isinstance(loop, n.For):
        return loop.index.type.bits == 64
    inside = walk((loop,))
    return any(
        isinstance(s, n.Op) and s.result.type.is_bool and s.args[0].type.is_int and s.args[0].type.bits == 64
        for s in inside
    )
