"""Verdicts on two results of one executor that a relation binds to each other.

Equal bits agree, and so do results a few units in the last place apart. The others need bounds, which are measured
then and not before: of both sides, as distances from the exact result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...reference.traps import OutOfFuel
from ..bounds import judge, overall
from ..compare import Verdict
from ..fuzz.result import Judged
from ..fuzz.standard import Bounded
from ..outcome import Arrays, Ok, Outcome, Refused, Trap, Unsupported

UNITS = 4
"""Units in the last place that are no difference."""

Bound = Callable[[], Bounded]
_VERDICTS: Mapping[str, Verdict] = {"agree": "ok", "undecided": "undecided", "disagree": "disagree"}


@dataclass(frozen=True)
class Question:
    """One comparison: of which relation, on which executor, in which direction."""

    direction: str
    relation: str
    executor: str

    def answer(self, verdict: Verdict, reason: str = "") -> Judged:
        """A verdict on it."""
        return Judged(self.direction, self.relation, self.executor, verdict, reason)

    def compare(self, left: Outcome, right: Outcome, bounds: tuple[Bound, Bound], bits: bool = False) -> Judged:
        """left: of the launch as it is, right: of the changed one. bits: they must be equal to the last one."""
        if not isinstance(left, Ok):
            return self._ended(left)
        if not isinstance(right, Ok):
            return self._ended(right)
        apart = [n for n, a in left.arrays.items() if n in right.arrays and not alike(a, right.arrays[n], bits)]
        if not apart:
            return self.answer("ok")
        if bits:
            return self.answer("disagree", f"{', '.join(apart)} differ")
        return self._bounded(left.arrays, right.arrays, *bounds)

    def _ended(self, outcome: Outcome) -> Judged:
        """Where a side has no result: two sides that do the same must both have one."""
        if isinstance(outcome, Trap) and outcome.kind != OutOfFuel.__name__:
            return self.answer("disagree", f"ended with {outcome}")
        if isinstance(outcome, Refused):
            return self.answer("refused", outcome.reason)
        return self.answer("unsupported", outcome.reason if isinstance(outcome, Unsupported) else str(outcome))

    def _bounded(self, left: Arrays, right: Arrays, mine: Bound, others: Bound) -> Judged:
        a, b = mine(), others()
        poisoned = a.poisoned or b.poisoned
        if poisoned:
            return self.answer("poisoned", poisoned)
        verdicts = judge(left, right, a.errors, b.errors)
        state = overall(verdicts)
        return self.answer(_VERDICTS[state], next((v.reason for v in verdicts.values() if v.state == state), ""))


def alike(a: np.ndarray, b: np.ndarray, bits: bool) -> bool:
    """Whether two arrays are equal, any NaN like any other; reals but for UNITS, or zeros of one sign if `bits`."""
    if a.dtype.kind != "f" or a.shape != b.shape:
        return bool(np.array_equal(a, b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if bits:
        return bool((same & ((np.signbit(a) == np.signbit(b)) | np.isnan(a))).all())
    coarser = max(a.dtype, b.dtype, key=lambda t: float(np.finfo(t).eps))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
        near = np.abs(a.astype(np.float64) - b.astype(np.float64)) <= UNITS * float(np.finfo(coarser).eps) * size
    return bool((same | (near & np.isfinite(size))).all())
