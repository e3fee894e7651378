"""This module makes outermost loops serial if their iterations depend on each other.

Invariant: a parallel task only reduces into locals declared outside it.
"""

from __future__ import annotations

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.reductions import carried_accesses, shared_locals
from ..ir.statement import Block, Stmt
from ..ir.walk import map_blocks
from .context import Tracer
from .diagnostics import syntax_problem


def append_loop(t: Tracer, task: Task) -> None:
    """Add a parallel loop to the kernel, or a serial loop and a warning if iterations pass a local to later ones."""
    found = carried_accesses(task.body, shared_locals(task.body))
    if found:
        if task.block:
            raise syntax_problem(
                "a loop that uses blocks stores to a local that is declared outside it",
                "declare the local inside the loop, or reduce into it (`+=`, min, max)",
            )
        name = next((s for s in found if isinstance(s, n.Set)), found[0]).var.partition(".")[0]
        t.warn(
            f"the loop stores to `{name}`, which is declared outside it: its iterations run one after another",
            f"declare `{name}` inside the loop, reduce into it (`+=`, min, max), or say that this is meant with"
            " `sg.loop_config(serialize=True)`",
        )
        task = _serial(task)
    t.tasks.append(task)


def _serial(task: Task) -> Task:
    """Return a serial task that runs the body of a parallel task in nested serial loops, in row-major order."""
    body: Block = _without_returns(task.body, 1)
    for index, begin, end in reversed(list(zip(task.indices, task.begin, task.end))):
        body = (n.For(index, begin, end, body, loc=task.loc),)
    return Task((*task.bounds, *body), loc=task.loc)


def _without_returns(block: Block, depth: int) -> Block:
    """Return the block with each `return` replaced by a `continue` of the `depth`-th enclosing loop or scope.

    A `return` ends an iteration of a parallel task; in the serial task the next trip must follow.
    """
    return tuple(_without_return(stmt, depth) for stmt in block)


def _without_return(stmt: Stmt, depth: int) -> Stmt:
    if isinstance(stmt, n.Return):
        return n.Continue(depth, loc=stmt.loc)
    inside = depth + isinstance(stmt, (n.For, n.While, n.Scope))
    return map_blocks(stmt, lambda inner: _without_returns(inner, inside))
