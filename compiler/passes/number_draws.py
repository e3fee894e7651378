"""This pass labels every random draw with the number of its task, so that a grad kernel repeats the same draws.

    task 2: %5 = random    →    %5 = random task 2

A draw is a function of launch, task, iteration and its number in the iteration. A grad kernel has different tasks but
the same iterations, and its forward sweeps draw in the same order: every draw is repeated, also one that no statement
reads.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.statement import Block, Stmt
from ..ir.walk import kept_block, map_blocks, walk_kernel


def number_draws(kernel: Kernel) -> Kernel:
    """Return the kernel with the number of its task in each random draw; a kernel of any stage keeps its stage."""
    if not any(isinstance(s, n.Random) for s in walk_kernel(kernel)):
        return kernel
    return replace(kernel, tasks=tuple(replace(t, body=_block(t.body, i)) for i, t in enumerate(kernel.tasks)))


def _block(block: Block, task: int) -> Block:
    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, n.Random):
            return replace(stmt, task=task) if stmt.task is None else stmt
        return map_blocks(stmt, lambda inner: _block(inner, task))

    return kept_block(block, [visit(s) for s in block])
