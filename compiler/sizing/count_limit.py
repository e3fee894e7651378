"""This module lets a counting kernel end early when it counts more history than memory can hold.

    while { .. } test %1 { ..; set depth.s, %2 }
        →
    %9 = load $room[0]; %8 = floordiv %9, bytes of a slot
    while { .. } test %1 { ..; set depth.s, %2; if %2 > %8 { atomic max $depths[k], %2; return } }

A counting kernel executes the loops of a gradient, however long they are, and a gradient whose adstacks do not fit into
memory cannot run. So an iteration ends when it has counted more slots than memory holds. The launcher finds its depth
in `$depths`, and the gradient is refused with that number. Iterations that begin after that do nothing.

A plain loop of 32 bits ends soon by itself, and in one step where LLVM sees what the loop adds up to. Its depth is
checked after the loop, if the loop stands in another loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, i64
from ..ir.walk import map_blocks, next_id, walk
from ..passes.lower_exits import lower_exits

ROOM = "$room"
"""The array of a counting kernel that holds the number of bytes that the adstacks of one iteration can have."""


def limit_counting(kernel: Kernel, slots: Mapping[str, tuple[int, int]], depths: str) -> Kernel:
    """Return the counting kernel with a limit parameter `$room`, or the same kernel if no loop may be endless.

    Args:
        kernel: The counting kernel.
        slots: For each adstack that is counted, its number and the bytes of one slot of all adstacks that are as deep.
        depths: Name of the array of depths.
    """
    ender = _LimitChecks(slots, depths, next_id(kernel))
    tasks = tuple(ender.task(task) for task in kernel.tasks)
    if all(a is b for a, b in zip(tasks, kernel.tasks)):
        return kernel
    room = Param(ROOM, ArrayType(i64, 1))
    return lower_exits(replace(kernel, params=(*kernel.params, room), tasks=tasks))


def _is_long(loop: n.For | n.While) -> bool:
    """Return True if a loop may count for so long that it needs a limit, unlike a plain loop over 32-bit indices."""
    if isinstance(loop, n.While) or loop.stop is not None or loop.index.type.bits == 64:
        return True
    return any(isinstance(s, LOOPS) for s in walk(loop.body))


class _LimitChecks:
    """This class adds statements to a counting kernel that end it early if a depth exceeds what memory can hold."""

    def __init__(self, slots: Mapping[str, tuple[int, int]], depths: str, first_id: int) -> None:
        self.slots = {f"depth.{stack}": found for stack, found in slots.items()}
        self.depths = depths
        self.next_id = first_id
        self.most: dict[str, Value] = {}

    def task(self, task: Task) -> Task:
        """Return the task with limit checks, or the same task if it needs none."""
        mine = [name for name in self._counted(task.body)]
        if not any(isinstance(s, LOOPS) and _is_long(s) and self._counted((s,)) for s in walk(task.body)):
            return task
        b = Builder(self.next_id)
        room = b.load(ROOM, (b.const(0, i64),), i64)
        self.most = {name: b.op("floordiv", room, b.const(self.slots[name][1], i64)) for name in mine}
        if task.is_parallel:
            for name in mine:
                slot = b.const(self.slots[name][0], i64)
                # An atomic reads the depth, because a load would race with the updates of other iterations.
                reached = b.atomic("max", self.depths, (slot,), b.const(0, i64))
                b.if_(b.op("cmp_gt", reached, self.most[name]), [n.Return()])
        self.next_id = b.next_id
        return replace(task, body=(*b.take(), *self._plain(task.body)))

    def _counted(self, block: Block) -> dict[str, None]:
        """Return the locals that count depths of adstacks and that a block sets, in order and without repetition."""
        return {s.var: None for s in walk(block) if isinstance(s, n.Set) and s.var in self.slots}

    def _block(self, block: Block, looks: bool) -> Block:
        """Return the block with limit checks in inner loops and, if `looks` is true, after each update of a depth.

        Args:
            block: The block.
            looks: True if the block stands in a loop that may be endless and that nothing else ends.
        """
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, LOOPS):
                is_long = _is_long(stmt)
                out.append(map_blocks(stmt, self._looking if is_long else self._plain))
                for name in self._counted((stmt,)) if looks and not is_long else ():
                    out += self._look(name, None, stmt.loc)
                continue
            out.append(map_blocks(stmt, self._looking if looks else self._plain))
            if looks and isinstance(stmt, n.Set) and stmt.var in self.slots:
                out += self._look(stmt.var, stmt.value, stmt.loc)
        return tuple(out)

    def _looking(self, block: Block) -> Block:
        """Return the body of a loop that may be endless, with a limit check after each update of a depth."""
        return self._block(block, True)

    def _plain(self, block: Block) -> Block:
        """Return a block that is not inside of an endless loop, with limit checks in its inner loops only."""
        return self._block(block, False)

    def _look(self, name: str, depth: Value | None, loc: int) -> Block:
        """Return statements that end the iteration if the counted depth of an adstack exceeds the limit."""
        b = Builder(self.next_id)
        b.loc = loc
        depth = depth or b.get(name, i64)
        with b.block() as ending:
            b.atomic("max", self.depths, (b.const(self.slots[name][0], i64),), depth)
            b.emit(n.Return(loc=loc))
        b.if_(b.op("cmp_gt", depth, self.most[name]), ending)
        self.next_id = b.next_id
        return b.take()
