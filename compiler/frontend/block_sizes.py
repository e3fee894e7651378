"""This module checks the block size of a parallel loop that uses blocks."""

from __future__ import annotations

from ..ir.collectives import DEFAULT_BLOCK, MOST_THREADS
from .context import Tracer
from .diagnostics import syntax_problem, type_problem


def block_size(t: Tracer) -> int:
    """Return the number of iterations of a block of the loop that is traced.

    Raises:
        Problem: the block size that the program gives is no number from 1 to MOST_THREADS.
    """
    given = t.block_use.size
    if given is None or given == 0:
        return DEFAULT_BLOCK
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_THREADS:
        raise type_problem(
            f"the block size {given!r} of this loop is no number from 1 to {MOST_THREADS}",
            f"write `sg.loop_config(block_dim={DEFAULT_BLOCK})` before the loop",
        )
    return given


def use_block(t: Tracer, name: str) -> int:
    """Record that the loop which is traced uses blocks, and return its block size. `name` is the function in messages.

    Raises:
        Problem: the call stands in no parallel loop, or the block size of the loop is not valid.
    """
    if not t.in_parallel:
        raise syntax_problem(
            f"`{name}` stands in no parallel loop, so there is no block",
            "call it in the body of an outermost loop without `serialize=True`",
        )
    size = block_size(t)
    t.block_use.is_used = True
    return size
