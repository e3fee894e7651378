"""This module contains mutants of memory: wrong contents before the launch, wrong elements, temporaries and draws."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from ....compiler import driver as pipeline
from ....compiler.ad import grad_kernel, task_order
from ....compiler.ad.activity import Activity, find_activity
from ....compiler.ad.check import check_state
from ....compiler.ad.forward import ForwardSweep
from ....compiler.ad.reverse import TaskReverser
from ....compiler.ad.risk import RiskAnalysis
from ....compiler.ad.sources import ValueSources
from ....compiler.ad.statements import Handler
from ....compiler.ad.structure import BlockPath
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import adjoint_type
from ....compiler.ir.walk import map_blocks, rename, renumber, replace_fields
from ....compiler.passes.dead_code import remove_dead_code
from ....compiler.passes.promote_elements import _ElementPromoter, _UpdateReplacer
from ....compiler.sizing import counting_kernel
from .planting import Mutant, Plant, patched, patched_handler

# ---- the state before the launch ----------------------------------------------------------------------------------


def _earlier_tasks_left_out() -> Plant:
    """Return a mutant whose grad kernel reads array copies without the stores that earlier tasks made to them."""
    right = task_order.writes_any

    def wrong(task: Task, arrays: Collection[str]) -> bool:
        return right(task, arrays) and any(name.startswith("$") for name in arrays)

    return patched(task_order, "writes_any", wrong)


def _present_read() -> Plant:
    """Return a mutant in which the forward sweep reads an array itself in place of its earlier copy."""
    right = ForwardSweep._statement

    def wrong(self: ForwardSweep, stmt: Stmt, path: BlockPath, position: int) -> Iterator[Stmt]:
        turned = isinstance(stmt, n.Load) and stmt.array in self.copies
        yield from (stmt,) if turned else right(self, stmt, path, position)

    def check(*args: Any) -> Any:
        copies = args[3]
        return refuse(*args) if not copies else []

    refuse = check_state
    stack = ExitStack()
    stack.enter_context(patched(ForwardSweep, "_statement", wrong))
    stack.enter_context(patched(grad_kernel, "check_state", check))
    return stack


def _not_stored_on_copy() -> Plant:
    right = ForwardSweep._statement

    def wrong(self: ForwardSweep, stmt: Stmt, path: BlockPath, position: int) -> Iterator[Stmt]:
        if not (isinstance(stmt, n.Store) and stmt.array in self.copies):
            yield from right(self, stmt, path, position)

    return patched(ForwardSweep, "_statement", wrong)


def _recomputed_at_risk() -> Plant:
    right = ValueSources.is_recomputable

    def wrong(self: ValueSources, value: Value) -> bool:
        is_load = isinstance(self.structure.made[value], n.Load)
        return self.policy.recompute if is_load else right(self, value)

    return patched(ValueSources, "is_recomputable", wrong)


# ---- atomics ------------------------------------------------------------------------------------------------------


@contextmanager
def _constant_old_values() -> Iterator[None]:
    """Return a mutant without derivatives through old values of atomics that a pass turned into plain accesses."""
    promoted, updated = _ElementPromoter._atomic, _UpdateReplacer._update

    def first(self: _ElementPromoter, stmt: n.Atomic) -> Block:
        made = promoted(self, stmt)
        self.next_id, block = _detached(made, stmt, self.next_id)
        return block

    def second(self: _UpdateReplacer, stmt: n.Atomic) -> Block:
        made = updated(self, stmt)
        self.next_id, block = _detached(made, stmt, self.next_id)
        return block

    with patched(_ElementPromoter, "_atomic", first), patched(_UpdateReplacer, "_update", second):
        yield


def _detached(block: Block, stmt: n.Atomic, first_id: int) -> tuple[int, Block]:
    """Return the next value number, and an update whose old value is read by others without a derivative."""
    head, *rest = block
    old = Value(first_id, stmt.result.type)
    copy = n.BitCast(stmt.result, old, loc=stmt.loc)
    return first_id + 1, (replace_fields(head, result=old), copy, *(rename(s, {stmt.result: old}) for s in rest))


def _zero_after_extreme() -> Plant:
    def change(right: Handler) -> Handler:
        def wrong(r: TaskReverser, stmt: n.Atomic, path: BlockPath, position: int) -> None:
            right(r, stmt, path, position)
            if stmt.op in ("min", "max"):
                zero = r.b.const(0.0, adjoint_type(stmt.value.type))
                r.b.store(f"{stmt.array}.grad", r.primals(stmt.indices), zero)

        return wrong

    return patched_handler(n.Atomic, change)


def _counted_on_old_content() -> Plant:
    """Return a mutant whose counting kernel makes no stores, although its loops may read the stored values."""

    def wrong(kernel: Kernel) -> Kernel:
        kept = frozenset({*counting_kernel.OUTPUTS} | {t.name for t in kernel.temps})
        return remove_dead_code(counting_kernel._without_stores(kernel, kept))

    return patched(counting_kernel, "_slice", wrong)


# ---- temporaries and draws ----------------------------------------------------------------------------------------


def _temporaries_constant() -> Plant:
    def wrong(kernel: Kernel) -> Activity:
        return find_activity(replace(kernel, temps=()))

    return patched(grad_kernel, "find_activity", wrong)


def _draws_of_grad_tasks() -> Plant:
    """Return a mutant whose grad kernel draws wrong random numbers, as draws use the grad task's number."""

    def forgotten(block: Block) -> Block:
        return tuple(replace(s, task=None) if isinstance(s, n.Random) else map_blocks(s, forgotten) for s in block)

    def wrong(kernel: Kernel) -> Kernel:
        made = pipeline_reverse(kernel)
        return replace(made, tasks=tuple(replace(t, body=forgotten(t.body)) for t in made.tasks))

    pipeline_reverse = renumber
    return patched(pipeline, "renumber", wrong)


MUTANTS = (
    Mutant(
        "earlier-tasks-not-repeated",
        "A copy of the state before the launch is not brought up to date for its task.",
        "a task of a gradient starts from the state before that task",
        _earlier_tasks_left_out,
    ),
    Mutant(
        "present-state-read",
        "Where there is a copy of the state before, the forward sweep reads the present state.",
        "under a tape, what the kernel overwrites is read from a copy",
        _present_read,
    ),
    Mutant(
        "store-not-repeated",
        "The forward sweep of a gradient leaves out its stores to copies.",
        "the forward sweep repeats its stores on the copy, so that later loads find them",
        _not_stored_on_copy,
    ),
    Mutant(
        "overwritten-load-recomputed",
        "A load at risk is made again in the reverse sweep, from the array itself.",
        "a field that the task writes is not reloaded as if it were unmutated",
        _recomputed_at_risk,
    ),
    Mutant(
        "old-value-without-adjoint",
        "The value that an atomic returns is a constant of every derivative.",
        "what uses the old value of an atomic adds to the adjoint of the element",
        _constant_old_values,
    ),
    Mutant(
        "extreme-zeroes-adjoint",
        "The reverse of an atomic min or max zeroes the adjoint, whoever won.",
        "an initial value that won keeps the adjoint",
        _zero_after_extreme,
    ),
    Mutant(
        "extreme-stored-again",
        "An element may be stored again after an atomic min or max.",
        "the final value of an extreme tells the winner only if nothing overwrites it",
        lambda: patched(RiskAnalysis, "final_value_risk", lambda *args: None),
    ),
    Mutant(
        "extreme-read-between",
        "An element may be read between two atomics min or max on it.",
        "who won is known at the end; what was read before has had another winner",
        lambda: patched(RiskAnalysis, "read_between", lambda *args: None),
    ),
    Mutant(
        "counted-on-old-content",
        "The counting kernel finds every array as it was before the launch.",
        "if control reads what the task writes, the counting kernel repeats these stores",
        _counted_on_old_content,
        "overflow",
    ),
    Mutant(
        "temporaries-constant",
        "What a parallel loop reduces into a local of the kernel has no derivative.",
        "a local that a parallel loop reduces into lives in memory, with an adjoint",
        _temporaries_constant,
    ),
    Mutant(
        "draws-of-grad-tasks",
        "A gradient draws the random numbers of its own tasks.",
        "a draw is a function of launch, task of the kernel, iteration and number",
        _draws_of_grad_tasks,
    ),
)
