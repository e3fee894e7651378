"""Check the relation that a serial loop over [b, e), split into loops over [b, m) and [m, e), has the same results.

    for j in b .. e { B }    →    m = b + k; for j in b .. min(m, e) { B }; for j' in m .. e { B' }

In a descending loop the second half comes first. Loops that a `break` can end early stay whole, because the second half
would not know of the `break`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.statement import Block, Stmt
from ....compiler.ir.walk import map_blocks, walk, walk_kernel
from ..fuzz.result import JudgedComparison
from .chain import LaunchChain, RelationExecutor
from .kernels import BlockCopier, has_own_break
from .pairs import ChainPair

FIRST = (1, 2, 1, 3)
"""Number of trips of the first half, selected by the draw."""


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdicts on a kernel against the same kernel with one serial loop split.

    Args:
        chain: A chain of the kernel.
        on: The executor that is checked.
        draw: Number that selects the loop and the place where it is split.
        forward: True to compare values too.
    """
    kernel = split(chain.kernel, draw)
    if kernel is None:
        return
    yield from ChainPair("loop-split", chain, chain.of(kernel)).compare(on, forward, bits=on.name == "reference")


def splittable_loops(kernel: Kernel) -> list[n.For]:
    """Return the loops that can be split, in the order of the text.

    A loop that claims unique indices is left out, because after a split the claim would hold only within each half.
    """
    return [
        s
        for s in walk_kernel(kernel)
        if isinstance(s, n.For)
        and s.stop is None
        and s.trips is None
        and not has_own_break(s.body)
        and not any(isinstance(inner, n.Op) and inner.op == "unique" for inner in walk(s.body))
    ]


def split(kernel: Kernel, draw: int) -> Kernel | None:
    """Return the kernel with one loop split, or None if no loop can be split."""
    found = splittable_loops(kernel)
    if not found:
        return None
    loop, first = found[draw % len(found)], FIRST[draw // len(found) % len(FIRST)]
    copies = BlockCopier(kernel)

    def visit(block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            out += _halves(loop, first, copies) if stmt is loop else (map_blocks(stmt, visit),)
        return tuple(out)

    return replace(kernel, tasks=tuple(replace(task, body=visit(task.body)) for task in kernel.tasks))


def _halves(loop: n.For, first: int, copies: BlockCopier) -> Block:
    """Return the two loops that replace a split loop, with the statements that compute their bounds.

    Args:
        loop: The loop to split.
        first: Number of trips of the first half.
        copies: Maker of copies, which renames the body of the second half.
    """
    b = Builder(copies.next_id)
    b.loc = loop.loc
    middle = b.op("add", loop.begin, b.const(first * loop.step, loop.begin.type))
    # The first half must not pass the end of a loop with fewer trips.
    nearer = b.op("min" if loop.step > 0 else "max", middle, loop.end)
    copies.next_id = b.next_id
    known = {loop.index: copies.fresh(loop.index)}
    last = replace(loop, begin=middle, index=known[loop.index], body=copies.copy(loop.body, known))
    halves = replace(loop, end=nearer), last
    return (*b.take(), *(reversed(halves) if loop.descending else halves))
