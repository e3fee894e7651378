"""What the reference computed and how exact that is; the judge of everything else.

Bounds are distances from the exact result, so that the standard may be compared with code of another shape (the
classic gradient, an oracle) as well as with another executor of its own. Code of another shape has an error of its own:
its bound is added, or the standard's taken twice where it has none.
"""

from __future__ import annotations

import numpy as np

from ...backends.base import Draws, Scalars, Sizes
from ...compiler.ir.nodes import Kernel
from ..bounds import Bounded, overall, run_bounded
from ..bounds import judge as judge_arrays
from ..compare import Comparison, Verdict
from ..outcome import Arrays, Ok, Outcome, Trap

_VERDICTS: dict[str, Verdict] = {"agree": "ok", "undecided": "undecided", "disagree": "disagree"}

FUEL = 50_000
"""Statements of a launch; what takes more is a loop without end: programs drawn take a few thousand."""

__all__ = ["FUEL", "Bounded", "bounded", "judge"]


def bounded(
    kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws, errors: Arrays | None = None, precise: bool = False
) -> Bounded:
    """Launch on copies. errors: of the initial content. precise: for executors of this very kernel alone. Raises what
    the launch raises.
    """
    return run_bounded(kernel, arrays, scalars, Sizes(), draws, errors, precise, FUEL)


def judge(known: Bounded, executor: str, outcome: Outcome, others: Arrays | None = None) -> Comparison:
    """What another execution came to, where the standard ran to its end. others: bounds of the other one."""
    if isinstance(outcome, Trap):
        return Comparison(executor, "disagree", f"ended with {outcome}", np.inf)
    if not isinstance(outcome, Ok):
        return Comparison(executor, "unsupported", outcome.reason)
    if known.poisoned:
        return Comparison(executor, "poisoned", known.poisoned)
    verdicts = judge_arrays(known.arrays, outcome.arrays, known.errors, others)
    state = overall(verdicts)
    reason = next((v.reason for v in verdicts.values() if v.state == state), "")
    return Comparison(executor, _VERDICTS[state], reason, max((v.worst for v in verdicts.values()), default=0.0))
