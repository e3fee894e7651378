"""This module contains mutants of size expressions, which compute the sizes of adstacks without a counting kernel."""

from __future__ import annotations

from ....compiler.sizing import stack_flow
from ....compiler.sizing.stack_flow import StackFlow
from ....compiler.sizing.symbolic_intervals import SymbolicInterval
from .planting import Mutant, Plant, patched


def _guard_ignored() -> Plant:
    def wrong(condition: SymbolicInterval, x: StackFlow, y: StackFlow) -> StackFlow:
        return x

    return patched(stack_flow, "branching_flow", wrong)


MUTANTS = (
    Mutant(
        "guard-ignored",
        "A size expression takes every branch for taken.",
        "what a branch pushes counts where its condition holds",
        _guard_ignored,
    ),
)
