"""This module contains mutants with a wrong primal in the reverse sweep: read too late, not saved, popped wrongly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ....compiler import driver as pipelines
from ....compiler.ad import grad_kernel, task_order
from ....compiler.ad.activity import Activity
from ....compiler.ad.repeatable_reads import LocalAccesses
from ....compiler.ad.requirement import Requirements
from ....compiler.ad.reverse import TaskReverser
from ....compiler.ad.risk import UNKNOWN, RiskAnalysis
from ....compiler.ad.slopes import Slopes, with_slopes
from ....compiler.ad.sources import ValueSources
from ....compiler.ad.statements import Handler
from ....compiler.ad.structure import BlockPath, Structure
from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.roles import SCALAR_USES
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import i64
from ....compiler.ir.walk import map_blocks, operands, rename, walk
from ....compiler.sizing import counting_kernel
from ....compiler.sizing.algebra import sub
from ....compiler.sizing.expressions import const
from ....compiler.sizing.sizes import KernelSizes, recognize_sizes
from .planting import Mutant, Plant, patched, patched_handler, rewritten_tasks


def _variables_recomputed() -> Plant:
    right = ValueSources.is_recomputable

    def wrong(self: ValueSources, value: Value) -> bool:
        stmt = self.structure.made[value]
        if isinstance(stmt, n.Get) and self.structure.declared.get(stmt.var) == ():
            return self.policy.recompute
        return right(self, value)

    return patched(ValueSources, "is_recomputable", wrong)


def _reread_conditions() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.If, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            made = r.b._open[-1].pop()
            assert isinstance(made, n.If)
            r.b.emit(replace(made, cond=_as_it_is_now(r, stmt.cond, made.cond)))

        return wrong

    return patched_handler(n.If, change)


def _as_it_is_now(r: TaskReverser, cond: Value, known: Value) -> Value:
    """Recompute a condition, and return it, from the locals' present values in place of those that it was made from."""
    test = r.structure.made.get(cond)
    if not isinstance(test, n.Op):
        return known
    holders: dict[Value, str] = {}
    for stmt in walk(r.structure.task.body):
        if isinstance(stmt, SCALAR_USES) and r.structure.declared.get(stmt.var) == ():
            holders.setdefault(stmt.result if isinstance(stmt, n.Get) else stmt.value, stmt.var)
    read = [v for v in operands(test) if v in holders and holders[v] not in r.stack_locals]
    if not read:
        return known
    fresh = r.b.fresh(cond.type)
    now = {v: r.b.get(holders[v], v.type) if v in read else r.primal(v) for v in operands(test)}
    r.b.emit(replace(rename(test, now), result=fresh))  # type: ignore[call-arg]
    return fresh


def _slopes_shared() -> Plant:
    right = with_slopes

    def wrong(task: Task, activity: Activity, first_id: int) -> tuple[Task, Slopes, int]:
        made, slopes, first_id = right(task, activity, first_id)
        for block in Structure(made).blocks.values():
            first: dict[tuple[str, int], Value] = {}
            for stmt in (s for s in block if isinstance(s, n.Op)):
                for k in range(len(stmt.args)):
                    if (stmt.result, k) in slopes:
                        slopes[stmt.result, k] = first.setdefault((stmt.op, k), slopes[stmt.result, k])
        return made, slopes, first_id

    return patched(grad_kernel, "with_slopes", wrong)


def _edited(change: Callable[[Block], Block]) -> Plant:
    """Return a mutant that applies `change` to every block of each grad task, inner blocks first."""

    def visit(block: Block) -> Block:
        return change(tuple(map_blocks(s, visit) for s in block))

    return rewritten_tasks(lambda self, task: replace(task, body=visit(task.body)))


def _never_pop() -> Plant:
    def strip(self: TaskReverser, task: Task) -> Task:
        dual = {s.stack for s in walk(task.body) if isinstance(s, n.StackAlloca) and s.adjoint}

        def visit(block: Block) -> Block:
            kept = (s for s in block if not isinstance(s, n.StackPop) or s.stack in dual)
            return tuple(map_blocks(s, visit) for s in kept)

        return replace(task, body=visit(task.body))

    return rewritten_tasks(strip)


def _push_missing_in_arm() -> Plant:
    def strip(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, n.If):
            return stmt
        return replace(stmt, orelse=tuple(s for s in stmt.orelse if not isinstance(s, n.StackPush)))

    return _edited(lambda block: tuple(strip(s) for s in block))


def _push_in_first_arm() -> Plant:
    def sink(block: Block) -> Block:
        out: list[Stmt] = []
        sunk: list[Stmt] = []
        branches = [k for k, s in enumerate(block) if isinstance(s, n.If)]
        for k, stmt in enumerate(block):
            if isinstance(stmt, n.StackPush) and any(b > k for b in branches):
                sunk.append(stmt)
            elif isinstance(stmt, n.If):
                out.append(replace(stmt, then=(*sunk, *stmt.then)))
                sunk = []
            else:
                out.append(stmt)
        return tuple(out)

    return _edited(sink)


def _reread_elements() -> Plant:
    """Return a mutant that repeats reads of local arrays in the reverse sweep, even if later stores change them."""
    right = LocalAccesses.__init__

    def wrong(self: LocalAccesses, structure: Structure) -> None:
        right(self, structure)
        self.lasting, self.other = self.lasting | self.other, set()

    return patched(LocalAccesses, "__init__", wrong)


def _arrays_outlive_iterations() -> Plant:
    """Return a mutant that declares local arrays once per task, so that contents of earlier trips remain."""
    right = LocalAccesses.__init__

    def wrong(self: LocalAccesses, structure: Structure) -> None:
        right(self, structure)
        arrays = {s.var for s in walk(structure.task.body) if isinstance(s, n.LocalArray) and structure.declared[s.var]}
        self.lasting |= {v for v in self.reads if self.variable(v) in arrays}

    def hoist(self: TaskReverser, task: Task) -> Task:
        found: list[Stmt] = []

        def visit(block: Block) -> Block:
            found.extend(s for s in block if _is_own_array(self, s))
            return tuple(map_blocks(s, visit) for s in block if not _is_own_array(self, s))

        body = visit(task.body)
        return replace(task, body=(*found, *body))

    stack = ExitStack()
    stack.enter_context(patched(LocalAccesses, "__init__", wrong))
    stack.enter_context(rewritten_tasks(hoist))
    return stack


def _restored_never_reversed() -> Plant:
    """Return a mutant that omits the reverse of inactive stores, although they must restore array elements."""
    right = Requirements.__init__

    def wrong(self: Requirements, *args: Any) -> None:
        right(self, *args[:3])

    return patched(Requirements, "__init__", wrong)


def _is_own_array(reverser: TaskReverser, stmt: Stmt) -> bool:
    """Return True if a statement declares a local array of the kernel itself, not one that reverse mode added."""
    return isinstance(stmt, n.LocalArray) and not stmt.var.startswith(f"{reverser.prefix}.")


def _count_one_short() -> Plant:
    right = counting_kernel._CountingRewriter._results

    def wrong(self: counting_kernel._CountingRewriter, number: int, own: list[str]) -> Block:
        made = right(self, number, own)
        b = Builder(self.next_id)
        for stmt in made:
            if isinstance(stmt, n.Atomic) and stmt.array == counting_kernel.DEPTHS:
                less = b.op("sub", stmt.value, b.const(1, i64))
                stmt = replace(stmt, value=less)
            b.emit(stmt)
        self.next_id = b.next_id
        return b.take()

    planted = ExitStack()
    planted.enter_context(patched(counting_kernel._CountingRewriter, "_results", wrong))
    planted.enter_context(patched(pipelines, "recognize_sizes", lambda *args: None))
    return planted


def _expression_one_short() -> Plant:
    right = recognize_sizes

    def wrong(kernel: Kernel, sliced: Kernel | None = None) -> KernelSizes | None:
        made = right(kernel, sliced)
        return None if made is None else replace(made, depths=tuple(sub(d, const(1)) for d in made.depths))

    return patched(pipelines, "recognize_sizes", wrong)


def _later_trips_harmless() -> Plant:
    right = RiskAnalysis._steps

    def wrong(self: RiskAnalysis, *args: Any) -> int | str:
        step = right(self, *args)
        return 0 if step == UNKNOWN else step

    return patched(RiskAnalysis, "_steps", wrong)


MUTANTS = (
    Mutant(
        "variable-reread",
        "Where the reverse sweep needs what a variable held, it reads the variable.",
        "the reverse sweep never reads a mutable scalar",
        _variables_recomputed,
    ),
    Mutant(
        "condition-reread",
        "The condition of a reversed branch is computed from what the branch made of it.",
        "an if is reversed on the same condition",
        _reread_conditions,
    ),
    Mutant(
        "last-iteration-read",
        "Saved values are read and not popped, so each iteration finds those of the last one.",
        "the reverse of a block pops what an execution of the block pushed",
        _never_pop,
    ),
    Mutant(
        "push-missing-in-arm",
        "What the second arm of a branch should push is not pushed.",
        "every execution of a block that saves pushes once",
        _push_missing_in_arm,
    ),
    Mutant(
        "push-in-first-arm",
        "A push is sunk into the first arm of the next branch, whoever else reads.",
        "a push stands in the lowest block that holds all readers",
        _push_in_first_arm,
    ),
    Mutant(
        "overwritten-element-reread",
        "Reads of local arrays are made again, whatever is stored there afterwards.",
        "a read of a local array is made again only if nothing can overwrite it before",
        _reread_elements,
    ),
    Mutant(
        "restored-element-reread",
        "Where writes are undone, a read is made again also behind a write that is not yet.",
        "a read is repeated only where nothing between the two writes the array",
        lambda: patched(LocalAccesses, "is_same", lambda *args: True),
    ),
    Mutant(
        "restoring-loop-skipped",
        "A loop that restores elements, and nothing active, is not reversed.",
        "whatever holds a restoring store is reversed, active or not",
        _restored_never_reversed,
    ),
    Mutant(
        "array-outlives-iteration",
        "In the reverse sweep, an array declared in a loop is what the last trip left.",
        "an array declared in a loop ends with the iteration",
        _arrays_outlive_iterations,
    ),
    Mutant(
        "slopes-shared",
        "Operations of one kind in a block share the slope of the first.",
        "a slope belongs to one operation and operand",
        _slopes_shared,
    ),
    Mutant(
        "count-one-short",
        "The counting kernel finds one slot less than each adstack needs.",
        "the capacity of an adstack is its depth; a push beyond it is an overflow",
        _count_one_short,
        "overflow",
    ),
    Mutant(
        "expression-one-short",
        "Size expressions give one slot less than each adstack needs.",
        "a size expression is exact, or the counting kernel decides",
        _expression_one_short,
        "overflow",
    ),
    Mutant(
        "risk-ignored",
        "Loads of elements that the kernel overwrites are taken for harmless.",
        "a load at risk is never computed again",
        lambda: patched(RiskAnalysis, "find", lambda self: {}),
    ),
    Mutant(
        "later-trips-harmless",
        "A store in a later trip never follows a read, unless the distance of the trips is known.",
        "what later trips of a common loop store may overwrite what was read",
        _later_trips_harmless,
    ),
    Mutant(
        "prelude-missing",
        "The grad kernel finds the temporaries of the kernel empty.",
        "temporaries live for one launch, so a grad kernel makes them again",
        lambda: patched(task_order, "_temporaries", lambda *args: ()),
    ),
)
