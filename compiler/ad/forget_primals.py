"""This module pushes zeros in place of primals that are never read, so that their computation is dead code.

    %3 = load y[i]; adstack_push s, %3      →      adstack_push s, 0.0        (only adjoints of s are read)

The pass first assumes that no primal of an adstack with adjoints is needed. It takes this back for each adstack whose
primals the remaining code still reads.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import nodes as n
from ..ir.kernels import Kernel
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import map_blocks, next_id, walk_kernel
from ..passes.dead_code import remove_dead_code


def forget_primals(kernel: Kernel) -> Kernel:
    """Return a kernel of stage adjoint with zeros in place of primals that are not read, and without dead code."""
    unread = {s.stack for s in walk_kernel(kernel) if isinstance(s, n.StackAlloca) and s.adjoint}
    while unread:
        emptied = remove_dead_code(_push_zeros(kernel, unread))
        read = unread & {s.stack for s in walk_kernel(emptied) if isinstance(s, n.StackTop)}
        if not read:
            return emptied
        unread -= read
    return remove_dead_code(kernel)


def _push_zeros(kernel: Kernel, names: set[str]) -> Kernel:
    """Return the kernel with a zero in place of each value pushed to the named adstacks."""
    fresh = next_id(kernel)

    def visit(block: Block) -> Block:
        nonlocal fresh
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.StackPush) and stmt.stack in names:
                zero = Value(fresh, stmt.value.type)
                fresh += 1
                out += (n.Const(zero, 0.0, loc=stmt.loc), replace(stmt, value=zero))
            else:
                out.append(map_blocks(stmt, visit))
        return tuple(out)

    return replace(kernel, tasks=tuple(replace(t, body=visit(t.body)) for t in kernel.tasks))
