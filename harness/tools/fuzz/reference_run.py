"""Run the reference with error bounds, and judge other executions by the result of the reference.

Bounds are distances from the exact result, so the standard may be compared with other gradients (the classic policy, an
oracle) as well as with another executor of its own kernel. An execution of another kernel has an error of its own: its
bound is added, or the standard's bound is taken twice if it has none.
"""

from __future__ import annotations

import numpy as np

from ....backends.base import Draws, Scalars, Sizes
from ....compiler.ir.kernels import Kernel
from ...testing.bounds import BoundedResult, overall, run_bounded
from ...testing.bounds import judge as judge_arrays
from ...testing.compare import Comparison, Verdict
from ...testing.outcome import Arrays, OkOutcome, Outcome, TrapOutcome

_VERDICTS: dict[str, Verdict] = {"agree": "ok", "undecided": "undecided", "disagree": "disagree"}

FUEL = 50_000
"""Largest number of statements of a launch.

A launch that takes more is taken for an endless loop; drawn programs take a few thousand.
"""

__all__ = ["FUEL", "BoundedResult", "launch_bounded", "judge"]


def launch_bounded(
    kernel: Kernel, arrays: Arrays, scalars: Scalars, draws: Draws, errors: Arrays | None = None, precise: bool = False
) -> BoundedResult:
    """Launch a kernel on copies and return the result with its error bounds.

    Args:
        kernel: The kernel to run.
        arrays: Initial contents of its arrays.
        scalars: Arguments of the launch.
        draws: State of the random numbers.
        errors: Errors of the initial contents.
        precise: True if the bounds serve only executors of this very kernel.

    Raises:
        Exception: Any trap that the launch raises.
    """
    return run_bounded(kernel, arrays, scalars, Sizes(), draws, errors, precise, FUEL)


def judge(known: BoundedResult, executor: str, outcome: Outcome, others: Arrays | None = None) -> Comparison:
    """Return the verdict on an execution by comparing it with the result of the reference and its bounds.

    Args:
        known: The result of the reference with its bounds.
        executor: Name of the executor.
        outcome: The outcome of the other execution.
        others: Error bounds of the other execution, if it has any.
    """
    if isinstance(outcome, TrapOutcome):
        return Comparison(executor, "disagree", f"ended with {outcome}", np.inf)
    if not isinstance(outcome, OkOutcome):
        return Comparison(executor, "unsupported", outcome.reason)
    if known.poisoned:
        return Comparison(executor, "poisoned", known.poisoned)
    verdicts = judge_arrays(known.arrays, outcome.arrays, known.errors, others)
    state = overall(verdicts)
    reason = next((v.reason for v in verdicts.values() if v.state == state), "")
    return Comparison(executor, _VERDICTS[state], reason, max((v.worst for v in verdicts.values()), default=0.0))
