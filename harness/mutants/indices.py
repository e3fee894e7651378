"""Mutants of index checks: comparisons that let an index pass, and proofs of what does not hold.

What they break leads outside of memory: the fuzzer sees an error that is missing, a wall that was run into (the
process ends), or bytes in front of an array that have changed; see relations/stray.py.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ...backends.llvm import index_checks as branching
from ...backends.llvm import ir
from ...backends.llvm.masked import index_checks as masked
from ...compiler.passes.affine import Affine
from ...compiler.passes.inequalities import Facts
from .planting import Mutant, Plant, patched


def _negative_passes() -> Plant:
    def wrong(b: Any, index: ir.Value, extent: ir.Value) -> ir.Value:
        return b.icmp_signed(">=", index, extent)

    stack = ExitStack()
    for module in (branching, masked):
        stack.enter_context(patched(module, "is_outside", wrong))
    return stack


def _proved_too_far() -> Plant:
    right = Facts.least

    def wrong(self: Facts, form: Affine) -> float:
        return right(self, form) + 1

    return patched(Facts, "least", wrong)


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
)
