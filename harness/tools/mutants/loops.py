"""This module contains mutants that reverse loops, exits and tasks in the wrong order or the wrong number of times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ....compiler.ad import task_order
from ....compiler.ad.requirement import Requirements, ReverseRead
from ....compiler.ad.reverse import TaskReverser
from ....compiler.ad.statements import REVERSE, Handler
from ....compiler.ad.structure import BlockPath
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Task
from ....compiler.ir.roles import JUMPS
from ....compiler.ir.statement import Block, Stmt
from ....compiler.ir.walk import map_blocks
from ....compiler.passes.lower_exits import _ExitFrame, _ExitLowering
from .planting import Mutant, Plant, patched, patched_handler


def _stay_in_loop() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.For, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            loop = r.b._open[-1].pop()
            assert isinstance(loop, n.For)
            with r.b.block() as rest, r._scope({}):
                _reverse_rest(r, path, position)
            r.b.emit(replace(loop, body=(*loop.body, *rest)))

        return wrong

    return patched_handler(n.For, change)


def _reverse_rest(r: TaskReverser, path: BlockPath, position: int) -> None:
    """Emit the reverses of all statements before `position`, and mark these statements as reversed."""
    block = r.structure.blocks[path]
    for before in range(position - 1, -1, -1):
        if (path, before) in r.plan.reversed:
            r.plan.reversed.discard((path, before))
            r.b.loc = block[before].loc
            REVERSE[type(block[before])](r, block[before], path, before)


def _siblings_forward() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.For, path: BlockPath, position: int) -> None:
            block = r.structure.blocks[path]
            loops = [p for p, s in enumerate(block) if isinstance(s, n.For) and (path, p) in r.plan.reversed]
            other = loops[-1 - loops.index(position)]
            right(r, block[other], path, other)

        return wrong

    return patched_handler(n.For, change)


def _bounds_for_trips() -> Plant:
    read = Requirements.read

    def needed(self: Requirements, stmt: Stmt) -> Iterator[ReverseRead]:
        yield from read(self, stmt)
        if isinstance(stmt, n.For):
            yield ReverseRead(stmt.end, "the end of this loop")

    def change(right: Handler) -> Handler:
        return lambda r, stmt, path, position: right(r, replace(stmt, stop=None), path, position)

    stack = ExitStack()
    stack.enter_context(patched(Requirements, "read", needed))
    stack.enter_context(patched_handler(n.For, change))
    return stack


def _changed_loop(kind: type[Stmt], edit: str) -> Plant:
    """Return a mutant in which the reversed loop has a wrong end, or runs in the order of the forward loop.

    `edit` says which of these.
    """

    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.For, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            loop = r.b._open[-1].pop()
            assert isinstance(loop, n.For)
            r.b.emit(_moved(r, loop, edit))

        return wrong

    return patched_handler(kind, change)


def _moved(r: TaskReverser, loop: n.For, edit: str) -> n.For:
    step = r.b.const(loop.step, loop.begin.type)
    if edit == "begin":
        return replace(loop, begin=r.b.op("add", loop.begin, step))
    if edit == "end":
        return replace(loop, end=r.b.op("sub", loop.end, step))
    return replace(loop, descending=loop.descending and loop.step > 0)


def _tasks_forward() -> Plant:
    right = task_order._last_to_first

    def wrong(*args: Any) -> tuple[Task, ...]:
        tasks: tuple[Task, ...] = right(*args)
        return tasks[::-1]

    return patched(task_order, "_last_to_first", wrong)


def _continue_leaves() -> Plant:
    right = _ExitLowering.task

    def visit(block: Block) -> Block:
        inner = (map_blocks(stmt, visit) for stmt in block)
        return tuple(n.Break(s.depth, loc=s.loc) if isinstance(s, n.Continue) else s for s in inner)

    return patched(_ExitLowering, "task", lambda self, task: right(self, replace(task, body=visit(task.body))))


def _conditions_fall_through() -> Plant:
    """Return a mutant that ignores early exits in the statements that compute the condition of a `while`."""
    right = _ExitLowering._loop

    def straight(block: Block) -> Block:
        kept: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Scope):
                kept += straight(stmt.body)
            elif not isinstance(stmt, JUMPS):
                kept.append(map_blocks(stmt, straight))
        return tuple(kept)

    def wrong(self: _ExitLowering, stmt: n.For | n.While, frames: list[_ExitFrame]) -> Block:
        if isinstance(stmt, n.While):
            stmt = replace(stmt, condition=straight(stmt.condition))
        return right(self, stmt, frames)

    return patched(_ExitLowering, "_loop", wrong)


MUTANTS = (
    Mutant(
        "rest-inside-loop",
        "After a reversed for, the rest of the block is emitted into the body of the loop.",
        "the reverse of a statement stands in the reverse of its block",
        _stay_in_loop,
    ),
    Mutant(
        "siblings-forward",
        "The loops of one block are reversed in the order of the text.",
        "the reverse of a block takes its statements last to first",
        _siblings_forward,
    ),
    Mutant(
        "bounds-for-trips",
        "A loop that stopped early is reversed over its whole range.",
        "a loop that may stop early is reversed for as many trips as it made",
        _bounds_for_trips,
    ),
    Mutant(
        "while-one-trip-short",
        "A while loop is reversed once less than its body ran.",
        "a while loop is repeated as often as its body ran",
        lambda: _changed_loop(n.While, "end"),
    ),
    Mutant(
        "for-misses-first",
        "The first iteration of a for has no reverse.",
        "the reverse of a for visits the same indices",
        lambda: _changed_loop(n.For, "begin"),
    ),
    Mutant(
        "negative-step-forward",
        "A for with a negative step is reversed first to last.",
        "the reverse of a for visits the indices the other way round",
        lambda: _changed_loop(n.For, "order"),
    ),
    Mutant(
        "tasks-forward",
        "The tasks of a kernel are reversed first to last.",
        "the tasks of a grad kernel are those of the kernel, last to first",
        _tasks_forward,
    ),
    Mutant(
        "continue-leaves",
        "Before reverse mode, continue becomes break.",
        "continue starts the next iteration",
        _continue_leaves,
    ),
    Mutant(
        "condition-falls-through",
        "A function in the condition of a while does not return early.",
        "exits in the condition of a while are lowered like all others",
        _conditions_fall_through,
    ),
)
