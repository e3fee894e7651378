"""This module contains mutants of size expressions, which compute the sizes of adstacks without a counting kernel."""

from __future__ import annotations

from ....compiler.sizing import flows
from ....compiler.sizing.flows import Flow
from ....compiler.sizing.spans import Span
from .planting import Mutant, Plant, patched


def _guard_ignored() -> Plant:
    def wrong(condition: Span, x: Flow, y: Flow) -> Flow:
        return x

    return patched(flows, "either", wrong)


MUTANTS = (
    Mutant(
        "guard-ignored",
        "A size expression takes every branch for taken.",
        "what a branch pushes counts where its condition holds",
        _guard_ignored,
    ),
)
