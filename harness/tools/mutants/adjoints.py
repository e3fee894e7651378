"""This module contains mutants with wrong adjoints: not zeroed, zeroed too often, or summed wrongly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ....compiler.ad import grad_kernel
from ....compiler.ad.reverse import TaskReverser
from ....compiler.ad.statements import Handler
from ....compiler.ad.structure import BlockPath
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Task
from ....compiler.ir.roles import ACCESSES, LOOPS
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import Scalar, adjoint_type, f16, f32
from ....compiler.ir.walk import map_blocks, operands, walk
from .planting import Mutant, Plant, last_statement, patched, patched_handler, rewritten_tasks


def _lose_outer_adjoints() -> Plant:
    zero = TaskReverser._zero

    def wrong(self: TaskReverser, path: BlockPath) -> None:
        zero(self, path)
        if not path or not isinstance(self.structure.holder(path), LOOPS):
            return
        used = {v for s in walk(self.structure.blocks[path]) for v in operands(s)}
        for value in sorted(used & self.activity.values & self.nested, key=lambda v: v.id):
            if path[: len(self.structure.homes[value])] == self.structure.homes[value] != path:
                self.b.set(self.adjoint_local(value), self.b.const(0.0, value.type))

    return patched(TaskReverser, "_zero", wrong)


def _keep_adjoint(constants_only: bool) -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.Store, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            if not constants_only or stmt.value not in r.activity.values:
                last_statement(r, lambda _: None)

        return wrong

    return patched_handler(n.Store, change)


def _keep_local_adjoint() -> Plant:
    right = TaskReverser.take_local

    def wrong(self: TaskReverser, var: str, dtype: Scalar) -> Value:
        if var in self.stack_locals:
            return right(self, var, dtype)
        return self.b.get(self.adjoint_local(var), adjoint_type(dtype))

    return patched(TaskReverser, "take_local", wrong)


def _adjoints_outlive_iterations(concerned: Callable[[str], bool] = lambda thing: True) -> Plant:
    """Return a mutant that declares adjoint locals of loop bodies once per task, so that they are not zeroed.

    Args:
        concerned: returns True for the adjoint locals that are changed, given the name of the local or the number of
            the value.
    """
    right = TaskReverser._declare_adjoint

    def is_concerned(self: TaskReverser, name: str) -> bool:
        return name.startswith(f"{self.prefix}.adj.") and concerned(name.removeprefix(f"{self.prefix}.adj."))

    def hoist(self: TaskReverser, task: Task) -> Task:
        found: list[Stmt] = []

        def visit(block: Block, inside: bool) -> Block:
            kept = []
            for stmt in block:
                if inside and isinstance(stmt, n.Local) and is_concerned(self, stmt.var):
                    found.append(stmt)
                else:
                    deeper = inside or isinstance(stmt, LOOPS)
                    kept.append(map_blocks(stmt, lambda b, deeper=deeper: visit(b, deeper)))  # type: ignore[misc]
            return tuple(kept)

        body = visit(task.body, False)
        return replace(task, body=(*found, *body))

    def declare(self: TaskReverser, name: str, dtype: Scalar) -> None:
        self.b.local(name, dtype) if is_concerned(self, name) else right(self, name, dtype)

    stack = ExitStack()
    stack.enter_context(patched(TaskReverser, "_declare_adjoint", declare))
    stack.enter_context(rewritten_tasks(hoist))
    return stack


def _overwrite_after_blocks() -> Plant:
    right = TaskReverser.reverse_block

    def wrong(self: TaskReverser, *args: Any, **named: Any) -> None:
        outer = set(self.zero)
        right(self, *args, **named)
        self.zero = outer

    return patched(TaskReverser, "reverse_block", wrong)


def _dirty_slots() -> Plant:
    """Return a mutant that starts the adjoint of a pushed adstack slot at 0.5 in place of 0."""

    def spoil(self: TaskReverser, task: Task) -> Task:
        dual = {s.stack: s.dtype for s in walk(task.body) if isinstance(s, n.StackAlloca) and s.adjoint}

        def visit(block: Block) -> Block:
            out: list[Stmt] = []
            for stmt in block:
                out.append(map_blocks(stmt, visit))
                if isinstance(stmt, n.StackPush) and stmt.stack in dual:
                    left = self.b.fresh(dual[stmt.stack])
                    out += (n.Const(left, 0.5), n.StackAccumulate(stmt.stack, left))
            return tuple(out)

        return replace(task, body=visit(task.body))

    return rewritten_tasks(spoil)


def _all_elements_own() -> Plant:
    def wrong(task: Task) -> set[str]:
        return {s.array for s in walk(task.body) if isinstance(s, ACCESSES)}

    return patched(grad_kernel, "own_arrays", wrong)


def _zero_after_atomic_add() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.Atomic, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            if stmt.op == "add":
                r.b.store(f"{stmt.array}.grad", r.primals(stmt.indices), r.b.const(0.0, adjoint_type(stmt.value.type)))

        return wrong

    return patched_handler(n.Atomic, change)


def _extreme_taken_by_all() -> Plant:
    """Return a mutant that gives the adjoint of an atomic extreme to every iteration whose value equals the result."""

    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.Atomic, path: BlockPath, position: int) -> None:
            grad, exchange = f"{stmt.array}.grad", r.b.atomic

            def load(
                op: str, array: str, indices: tuple[Value, ...], value: Value, expected: Value | None = None
            ) -> Value:
                if op == "exchange" and array == grad:
                    return r.b.load(array, indices, value.type)
                return exchange(op, array, indices, value, expected)

            r.b.atomic = load  # type: ignore[method-assign]
            try:
                right(r, stmt, path, position)
            finally:
                del r.b.atomic

        return wrong

    return patched_handler(n.Atomic, change)


def _round_adjoints() -> Plant:
    right = TaskReverser.add

    def wrong(self: TaskReverser, value: Value, share: Value | None) -> None:
        right(self, value, share and self.b.cast(self.b.cast(share, f32), share.type))

    return patched(TaskReverser, "add", wrong)


def _sum_in_half() -> Plant:
    """Return a mutant that rounds the adjoint of a half-precision value to f16 after each addition."""
    right = TaskReverser.add

    def wrong(self: TaskReverser, value: Value, share: Value | None) -> None:
        right(self, value, share)
        total = self.take(value) if value.type == f16 and share is not None else None
        if total is None:
            return
        kept = self.b.cast(self.b.cast(total, f16), total.type)
        if value in self.nested:
            self.b.set(self.adjoint_local(value), kept)
        else:
            self.adjoints[value] = kept

    return patched(TaskReverser, "add", wrong)


MUTANTS = (
    Mutant(
        "outer-adjoint-lost",
        "Each reversed iteration zeroes the adjoints of values from before the loop.",
        "an adjoint is zeroed once for each execution of the block that defines its value",
        _lose_outer_adjoints,
    ),
    Mutant(
        "store-keeps-adjoint",
        "The reverse of a store leaves the adjoint of the element.",
        "a store takes the adjoint of the element and zeroes it",
        lambda: _keep_adjoint(False),
    ),
    Mutant(
        "constant-store-keeps-adjoint",
        "The reverse of a store of something inactive leaves the adjoint.",
        "also a store of a constant ends the influence of the old content",
        lambda: _keep_adjoint(True),
    ),
    Mutant(
        "local-keeps-adjoint",
        "The reverse of a set takes the adjoint of the variable and leaves it there.",
        "a set ends the life of the version before it",
        _keep_local_adjoint,
    ),
    Mutant(
        "adjoints-outlive-iterations",
        "Adjoints of values of a loop body are zeroed before the loop alone.",
        "an adjoint is zeroed once for each execution of the block that defines its value",
        _adjoints_outlive_iterations,
    ),
    Mutant(
        "declaration-keeps-adjoint",
        "Adjoints of variables declared in a loop body are zeroed before the loop alone.",
        "a declaration is a store of zero: its reverse drops the adjoint",
        lambda: _adjoints_outlive_iterations(lambda thing: not thing.isdigit()),
    ),
    Mutant(
        "overwritten-after-block",
        "What a branch or loop added to an adjoint is overwritten by the next share.",
        "a plain store replaces an addition only where the adjoint is known to be zero",
        _overwrite_after_blocks,
    ),
    Mutant(
        "slot-adjoint-not-zeroed",
        "A new slot of an adstack has the adjoint that was in memory (classic).",
        "a push zeroes the adjoint of the new slot",
        _dirty_slots,
    ),
    Mutant(
        "shared-element-plain-add",
        "Adjoints of elements that several iterations read are added without atomics.",
        "a plain add needs an element of the iteration's own",
        _all_elements_own,
    ),
    Mutant(
        "atomic-add-zeroes",
        "The reverse of an atomic add zeroes the adjoint of the element like that of a store.",
        "an atomic add leaves the influence of the old content",
        _zero_after_atomic_add,
    ),
    Mutant(
        "extreme-taken-by-all",
        "Every iteration that holds the final value of an atomic min or max takes its adjoint.",
        "the adjoint of an extreme is taken once",
        _extreme_taken_by_all,
    ),
    Mutant(
        "adjoints-rounded",
        "Every share is rounded to f32 before it is added.",
        "the adjoint of a value has the type of the value",
        _round_adjoints,
    ),
    Mutant(
        "sum-kept-in-half",
        "Sums of shares of a value in half precision are kept in half precision.",
        "the adjoint of a value in half precision is a number of single precision",
        _sum_in_half,
    ),
)
