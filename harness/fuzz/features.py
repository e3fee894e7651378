"""What kind of program a case is: loops in its text, trips they made, adstacks they needed."""
from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ...backends.base import Draws, Scalars, Sizes
from ...backends.launcher import Launcher
from ...compiler.errors import StackgradError
from ...compiler.ir import nodes as n
from ...compiler.ir.build import Builder
from ...compiler.ir.nodes import Block, Kernel, Param, Stmt
from ...compiler.ir.types import ArrayType, Scalar, i32, i64
from ...compiler.ir.walk import map_blocks, next_id, results, walk_kernel
from ...reference.launch import run
from ..outcome import Arrays

TRIPS = "$trips"


def loop_nest(kernel: Kernel) -> int:
    """Depth of the deepest nest of serial loops."""
    return max((_nest(task.body) for task in kernel.tasks), default=0)


def _nest(block: Block) -> int:
    return max((_depth(stmt) for stmt in block), default=0)


def _depth(stmt: Stmt) -> int:
    inner = max((_nest(getattr(stmt, name)) for name, role in n.ROLES[type(stmt)] if role == "block"), default=0)
    return inner + isinstance(stmt, n.For | n.While)


def statements(kernel: Kernel) -> int:
    """How many there are in the text."""
    return sum(1 for _ in walk_kernel(kernel))


def real_types(kernel: Kernel) -> set[Scalar]:
    """Types of the reals that a kernel computes with."""
    return {v.type for stmt in walk_kernel(kernel) for v in results(stmt) if v.type.is_real}


def sizes_of(launcher: Launcher) -> Sizes:
    """Capacities of the adstacks of the last launch."""
    return Sizes({s.name: s.capacity for use in launcher.usage() for s in use.stacks})


def longest_loop(kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws) -> int:
    """Iterations of the longest run of a loop of a kernel of stage tasks; loops left by `break` or `return` may not
    be counted, and those of a launch that traps are counted as far as it came.
    """
    if not loop_nest(kernel):
        return 0
    counter = _Counter(next_id(kernel))
    tasks = tuple(replace(t, body=counter.block(t.body)) for t in kernel.tasks)
    counted = replace(kernel, params=(*kernel.params, Param(TRIPS, ArrayType(i64, 0))), tasks=tasks)
    memory = {name: a.copy() for name, a in arrays.items()} | {TRIPS: np.zeros((), np.int64)}
    with suppress(StackgradError):
        run(counted, memory, scalars, Sizes(), draws)
    return int(memory[TRIPS])


class _Counter:
    """Puts `trips = max(trips, count)` behind every loop."""

    def __init__(self, first_id: int) -> None:
        self.b = Builder(first_id)

    def block(self, block: Iterable[Stmt]) -> Block:
        made: list[Stmt] = []
        for stmt in block:
            stmt = map_blocks(stmt, self.block)
            if isinstance(stmt, n.For | n.While):
                count = stmt.trips or self.b.fresh(i32)
                stmt = replace(stmt, trips=count)
                self.b.atomic("max", TRIPS, (), self.b.cast(count, i64))
            made += [stmt, *self.b.take()]
        return tuple(made)
