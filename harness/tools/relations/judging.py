"""Compare the two results of one executor for which a relation holds, bit by bit or within their error bounds.

Equal bits agree, and so do results a few units in the last place apart. Other results need the error bounds of both
sides, as distances from the exact result; these are computed only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ....reference.traps import OutOfFuel
from ...testing.bounds import judge, overall
from ...testing.compare import Verdict
from ...testing.outcome import Arrays, OkOutcome, Outcome, RefusedOutcome, TrapOutcome, UnsupportedOutcome
from ..fuzz.reference_run import BoundedResult
from ..fuzz.result import JudgedComparison

UNITS = 4
"""Number of units in the last place that count as no difference."""

Bound = Callable[[], BoundedResult]
_VERDICTS: Mapping[str, Verdict] = {"agree": "ok", "undecided": "undecided", "disagree": "disagree"}


@dataclass(frozen=True)
class RelationQuestion:
    """Represent a check that is still to be decided: one relation on one executor in one direction."""

    direction: str
    relation: str
    executor: str

    def answer(self, verdict: Verdict, reason: str = "") -> JudgedComparison:
        """Return the result of the check: a comparison with the given verdict."""
        return JudgedComparison(self.direction, self.relation, self.executor, verdict, reason)

    def compare(
        self, left: Outcome, right: Outcome, bounds: tuple[Bound, Bound], bits: bool = False
    ) -> JudgedComparison:
        """Compare the outcomes of the original and the changed launch, and return the verdict.

        Args:
            left: Outcome of the original launch.
            right: Outcome of the changed launch.
            bounds: Functions that compute the error bounds of both sides.
            bits: True if the results must be equal to the last bit.
        """
        if not isinstance(left, OkOutcome):
            return self._ended(left)
        if not isinstance(right, OkOutcome):
            return self._ended(right)
        apart = [
            n for n, a in left.arrays.items() if n in right.arrays and not equal_with_nan(a, right.arrays[n], bits)
        ]
        if not apart:
            return self.answer("ok")
        if bits:
            return self.answer("disagree", f"{', '.join(apart)} differ")
        return self._bounded(left.arrays, right.arrays, *bounds)

    def _ended(self, outcome: Outcome) -> JudgedComparison:
        """Return the verdict for a launch that ended with a trap, a refusal or no result."""
        if isinstance(outcome, TrapOutcome) and outcome.kind != OutOfFuel.__name__:
            return self.answer("disagree", f"ended with {outcome}")
        if isinstance(outcome, RefusedOutcome):
            return self.answer("refused", outcome.reason)
        return self.answer("unsupported", outcome.reason if isinstance(outcome, UnsupportedOutcome) else str(outcome))

    def _bounded(self, left: Arrays, right: Arrays, mine: Bound, others: Bound) -> JudgedComparison:
        a, b = mine(), others()
        poisoned = a.poisoned or b.poisoned
        if poisoned:
            return self.answer("poisoned", poisoned)
        verdicts = judge(left, right, a.errors, b.errors)
        state = overall(verdicts)
        return self.answer(_VERDICTS[state], next((v.reason for v in verdicts.values() if v.state == state), ""))


def equal_with_nan(a: np.ndarray, b: np.ndarray, bits: bool) -> bool:
    """Return True if two arrays are equal within UNITS ulps, or, if `bits`, bit by bit; NaNs count as equal.

    Args:
        a: An array.
        b: Another array, perhaps of another type.
        bits: If True, reals may not differ at all and zeros must have the same sign; else they may differ by UNITS.
    """
    if a.dtype.kind != "f" or a.shape != b.shape:
        return bool(np.array_equal(a, b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if bits:
        return bool((same & ((np.signbit(a) == np.signbit(b)) | np.isnan(a))).all())
    # Of two types, the units of the coarser type count.
    coarser = max(a.dtype, b.dtype, key=lambda t: float(np.finfo(t).eps))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
        near = np.abs(a.astype(np.float64) - b.astype(np.float64)) <= UNITS * float(np.finfo(coarser).eps) * size
    return bool((same | (near & np.isfinite(size))).all())
