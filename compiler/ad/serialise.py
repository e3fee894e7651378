"""serialise(task): a parallel task as a serial one that visits the same points in row-major order.

    parallel %i in %b .. %e { body }     →     serial { bounds; for %i in %b .. %e { body } }

`return` ended an iteration; it now goes on with the next one.
"""

from __future__ import annotations

from ..errors import NotDifferentiable
from ..ir import nodes as n
from ..ir.nodes import Block, Kernel, Stmt, Task
from ..ir.walk import map_blocks, walk

FRAMES = (n.For, n.While, n.Scope)


def serialise(kernel: Kernel, task: Task, because: n.Atomic, who: str = "forward mode runs") -> Task:
    """The serial task. because, who: for the message. Raises NotDifferentiable if the task draws random numbers.

    Draws are numbered by iteration, so in one iteration of a serial task they would be others.
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
    """The block with `return` become `continue`, where `depth` frames lead to the innermost axis."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, n.Return):
            return n.Continue(depth, loc=stmt.loc)
        inner = depth + isinstance(stmt, FRAMES)
        return map_blocks(stmt, lambda b: _returns(b, inner))

    return tuple(change(s) for s in block)
