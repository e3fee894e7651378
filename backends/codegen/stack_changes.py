"""This module counts the pushes and pops that each trip of a loop makes on each adstack."""

from __future__ import annotations

from collections import Counter

from ...compiler.ir import nodes as n
from ...compiler.ir.roles import JUMPS
from ...compiler.ir.statement import Block
from ...compiler.ir.walk import walk


def pushes_of_a_trip(loop: n.For) -> dict[str, n.StackPush]:
    """Return, for each adstack that a loop only pushes, and equally often per trip, the last push of a trip.

    The capacity of such a stack can be compared before the loop, instead of at each push.
    """
    if loop.stop is not None:
        return {}
    direct = Counter(s.stack for s in loop.body if isinstance(s, n.StackPush))
    inside = list(walk(loop.body)) if direct else []
    if any(isinstance(s, JUMPS) for s in inside):
        return {}
    every = Counter(s.stack for s in inside if isinstance(s, n.StackPush))
    shrunk = {s.stack for s in inside if isinstance(s, (n.StackPop, n.StackAlloca))}
    return {
        s.stack: s
        for s in loop.body
        if isinstance(s, n.StackPush) and every[s.stack] == direct[s.stack] and s.stack not in shrunk
    }


def pushes(body: Block, stack: str) -> int:
    """Return the number of pushes to a stack among the statements of a block, without those in nested blocks."""
    return sum(isinstance(s, n.StackPush) and s.stack == stack for s in body)


def pops_of_a_trip(loop: n.For) -> dict[str, int]:
    """Return, for each adstack that a loop only pops, and equally often per trip, the number of pops per trip."""
    if loop.stop is not None:
        return {}
    direct = Counter(s.stack for s in loop.body if isinstance(s, n.StackPop))
    inside = list(walk(loop.body)) if direct else []
    if any(isinstance(s, JUMPS) for s in inside):
        return {}
    every = Counter(s.stack for s in inside if isinstance(s, n.StackPop))
    changed = {s.stack for s in inside if isinstance(s, (n.StackPush, n.StackAlloca))}
    return {name: pops for name, pops in direct.items() if every[name] == pops and name not in changed}


def reads(body: Block, stack: str) -> bool:
    """Return True if the block reads the top of a stack."""
    return any(isinstance(s, n.StackTop) and s.stack == stack for s in walk(body))


def after_last_pop(body: Block, stack: str) -> Block:
    """Return the statements of a block after the last pop of a stack, not counting pops in nested blocks."""
    last = max(k for k, s in enumerate(body) if isinstance(s, n.StackPop) and s.stack == stack)
    return body[last + 1 :]


AT_ONCE = ((32, 4), (96, 2))
"""(most statements of a loop, trips at a time): what is read for one trip is in flight while the last one computes.

Measured on an H100, by hand: the gradient of 64 sines takes 190 µs by single trips, 169 by two, 116 by four and 111 by
eight.
"""


SAVED_AT_ONCE = ((16, 8), (32, 4))
"""(most statements of a loop, trips at a time) for a loop that saves history and compares no argument of a sine.

If it compares arguments, several trips are no faster than one (on an H100, the gradient of 64 sines by four took 221 µs
instead of 166).
"""
