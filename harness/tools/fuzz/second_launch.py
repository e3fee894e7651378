"""Launch a gradient twice with different trip counts, and compare size expressions with counted sizes.

Sizes of adstacks are kept between launches and must be found anew for a state that was not seen before. Size
expressions must give the sizes that the counting kernel counts. The results of the two launches need not be the
gradient of anything, but they must equal those of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....backends.base import Draws, Scalars
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering
from ....reference.backend import ReferenceBackend
from ....reference.traps import TRAPS
from ...testing.executors import CHECKED
from ...testing.outcome import Arrays, attempt
from .plan import FuzzPlan
from .reference_run import judge, launch_bounded
from .result import JudgedComparison


def compare(
    lean: Lowering, state: Arrays, scalars: Scalars, reference: ReferenceBackend, plan: FuzzPlan
) -> Iterator[JudgedComparison]:
    """Yield the verdicts on size expressions and on a second launch, if the plan contains these checks.

    Args:
        lean: The lowering of the gradient.
        state: The memory of a launch of the gradient.
        scalars: Arguments of the launch.
        reference: The backend that runs the gradient.
        plan: The plan of the case.
    """
    if (plan.again or plan.only) and plan.wants("reverse", "sizes"):
        yield from _sizes(lean, state, scalars, reference)
    if plan.again and plan.wants("reverse", "again"):
        yield from _relaunched(lean, state, scalars, reference)


def _relaunched(
    lean: Lowering, first: Arrays, scalars: Scalars, reference: ReferenceBackend
) -> Iterator[JudgedComparison]:
    """Launch a grad kernel, then launch it again on arrays that give more trips, and judge the second launch.

    Yield nothing if both states are equal, or the second traps or has no gradient.
    """
    # Without a counting kernel no sizes are kept, and marks may refuse the second state.
    if lean.counting is None or lean.marking is not None:
        return
    second = {name: _more(name, array, lean) for name, array in first.items()}
    if all(np.array_equal(first[name], second[name], equal_nan=True) for name in first):
        return
    try:
        known = launch_bounded(lean.kernel, second, scalars, Draws(), precise=True)
    except TRAPS:
        return
    launcher = Launcher(lean, reference, CHECKED)
    versions = len(launcher.versioned)

    def relaunched() -> Arrays:
        # The versions tell the launcher that the arrays changed, so the kept sizes do not apply.
        launcher.run({name: a.copy() for name, a in first.items()}, scalars, Draws(), (1,) * versions)
        last = {name: a.copy() for name, a in second.items()}
        launcher.run(last, scalars, Draws(), (2,) * versions)
        return last

    made = judge(known, "again", attempt(relaunched))
    yield JudgedComparison("reverse", "again", "lean", made.verdict, made.reason)


def _sizes(lean: Lowering, memory: Arrays, scalars: Scalars, reference: ReferenceBackend) -> Iterator[JudgedComparison]:
    """Yield the verdict that compares adstack sizes from size expressions with those that the counting kernel finds."""
    if lean.sizes is None or lean.counting is None:
        return
    said = Launcher(lean, reference, CHECKED)._evaluate(memory, scalars)
    if said is None:
        return
    counting = Launcher(replace(lean, sizes=None), reference, CHECKED)
    counting.measure(memory, scalars)
    counted = counting._last
    parts = [name for name in ("capacities", "rows", "totals") if getattr(said, name) != getattr(counted, name)]
    reason = "; ".join(f"{name}: {getattr(said, name)}, not {getattr(counted, name)}" for name in parts)
    yield JudgedComparison("reverse", "sizes", "the counting kernel", "disagree" if parts else "ok", reason)


def _more(name: str, array: np.ndarray, lean: Lowering) -> np.ndarray:
    """Return an integer input array changed so that loops make more trips; other arrays are returned unchanged.

    Every element becomes the greatest one; in a permutation, the elements are rotated by one place.
    """
    if array.dtype.kind not in "iu" or array.size < 2 or name in lean.writes:
        return array
    if len(np.unique(array)) == array.size:
        return np.roll(array, 1)
    return np.full_like(array, array.max())
