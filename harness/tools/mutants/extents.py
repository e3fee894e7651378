"""This module contains mutants in which machine code reads wrong extents of an array."""

from __future__ import annotations

from ....backends.codegen.types import const
from ....backends.llvm.branching.statements import LOWER
from ....backends.llvm.emit import Emitter
from ....compiler.ir import nodes as n
from .planting import Mutant, Plant, patched_row


def _one_too_few() -> Plant:
    right = LOWER[n.Shape]

    def wrong(e: Emitter, stmt: n.Shape) -> None:
        right(e, stmt)
        extent = e.values[stmt.result]
        e.values[stmt.result] = e.b.sub(extent, const(extent.type, 1))

    return patched_row(LOWER, n.Shape, wrong)


MUTANTS = (
    Mutant(
        "wrong-extent",
        "The extent of an array is read as one too few.",
        "a kernel sees the extents that an array has",
        _one_too_few,
        "values",
    ),
)
