"""This module contains mutants of index checks: wrong comparisons, and checks wrongly proved unnecessary.

They lead to accesses outside of arrays. The fuzzer sees an error that is missing, a closed page that was touched (the
process ends), or bytes in front of an array that have changed; see relations/out_of_bounds.py.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ....backends.codegen import index_checks as branching
from ....backends.codegen import ir
from ....backends.llvm.masked import index_checks as masked
from ....compiler.analysis.affine import Affine
from ....compiler.analysis.inequalities import FactSet
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Task
from ....compiler.ir.statement import Value
from ....compiler.ir.walk import walk_task
from ....compiler.passes import drop_checks as dropping
from .planting import Mutant, Plant, patched


def _negative_passes() -> Plant:
    def wrong(b: Any, index: ir.LLVMValue, extent: ir.LLVMValue) -> ir.LLVMValue:
        outside: ir.LLVMValue = b.icmp_signed(">=", index, extent)
        return outside

    stack = ExitStack()
    for module in (branching, masked):
        stack.enter_context(patched(module, "is_outside", wrong))
    return stack


def _proved_too_far() -> Plant:
    right = FactSet.least

    def wrong(self: FactSet, form: Affine) -> float:
        return right(self, form) + 1

    return patched(FactSet, "least", wrong)


def _positions_pass() -> Plant:
    right = dropping._proved

    def wrong(task: Task) -> set[Value]:
        known = {s.result for s in walk_task(task) if isinstance(s, n.Const)}
        return right(task) | {s.result for s in walk_task(task) if isinstance(s, n.Within) and s.extent in known}

    return patched(dropping, "_proved", wrong)


def _wide_views() -> Plant:
    return patched(branching, "not_negative", lambda e, number: e.b.add(number, number))


MUTANTS = (
    Mutant(
        "negative-index-passes",
        "Indices are compared as signed numbers, so that one below zero passes.",
        "an index is inside if it is at least zero and below the extent",
        _negative_passes,
        "outside",
    ),
    Mutant(
        "index-proved-too-far",
        "An index that may be outside by one is taken to be proved inside.",
        "what is not compared is proved",
        _proved_too_far,
        "outside",
    ),
    Mutant(
        "local-position-passes",
        "Positions within local vectors and matrices are compared with nothing.",
        "a position known at launch only is compared unless it is proved",
        _positions_pass,
        "outside",
    ),
    Mutant(
        "view-twice-as-long",
        "An index of a view is compared with twice the size of the view.",
        "a position is inside if it is below the extent of what it is a position in",
        _wide_views,
        "outside",
    ),
)
