"""Turn a parallel task into a serial task that visits the same points in row-major order.

    parallel %i in %b .. %e { body }     →     serial { bounds; for %i in %b .. %e { body } }

A `return` ended an iteration; in the serial task it becomes a `continue` that starts the next iteration.
"""

from __future__ import annotations

from ..errors import NotDifferentiable
from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.statement import Block, Stmt
from ..ir.walk import map_blocks, walk

FRAMES = (n.For, n.While, n.Scope)
"""Statements that `break` and `continue` count."""


def serialize(kernel: Kernel, task: Task, because: n.Atomic, who: str = "forward mode runs") -> Task:
    """Return the serial task that visits the points of a parallel task's box in row-major order.

    Draws are numbered by iteration, so in the one iteration of a serial task they would be different numbers.

    Args:
        kernel: The kernel of the task.
        task: A parallel task.
        because: The atomic that makes this necessary, for the message.
        who: Subject and verb of the sentence in the error message, such as "forward mode runs".

    Raises:
        NotDifferentiable: The task draws random numbers.
    """
    draws = next((s for s in walk(task.body) if isinstance(s, n.Random)), None)
    if draws is not None:
        raise NotDifferentiable(
            f"{who} a parallel loop with an atomic {because.op} on '{because.array}' serially, where its"
            " random numbers would be others",
            "draw the numbers into a field in a kernel of its own, or make the loop serial",
            kernel.span(draws.loc),
        )
    body = _returns(task.body, 1)
    for index, begin, end in reversed(list(zip(task.indices, task.begin, task.end))):
        body = (n.For(index, begin, end, body, loc=task.loc),)
    return Task(task.bounds + body, loc=task.loc)


def _returns(block: Block, depth: int) -> Block:
    """Return the block with each `return` replaced by a `continue` of the innermost loop over the box."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, n.Return):
            return n.Continue(depth, loc=stmt.loc)
        inner = depth + isinstance(stmt, FRAMES)
        return map_blocks(stmt, lambda b: _returns(b, inner))

    return tuple(change(s) for s in block)
