"""This module decides if the results of an executor agree with those of the reference, as far as rounding permits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .outcome import Arrays, OkOutcome, Outcome, PoisonedOutcome, TrapOutcome, UndecidedOutcome
from .rounding import Precision, Sensitivity, difference

Verdict = Literal["ok", "unsupported", "refused", "poisoned", "undecided", "trap", "disagree"]
SEVERITY: tuple[Verdict, ...] = ("ok", "unsupported", "refused", "poisoned", "undecided", "trap", "disagree")
"""All verdicts, from harmless to worst."""

FAILURES: frozenset[Verdict] = frozenset({"disagree", "trap"})
OPEN: frozenset[Verdict] = frozenset({"undecided", "poisoned"})
"""Verdicts that decide nothing. They are counted."""

DECIDED: frozenset[Verdict] = frozenset({"ok", *FAILURES})


@dataclass(frozen=True)
class Comparison:
    """A `Comparison` holds the verdict on one executor compared with the reference.

    Attributes:
        executor: the name of the executor.
        verdict: the verdict on all arrays together.
        reason: the cause of the verdict, for messages.
        error: the largest difference divided by its bound, at most 1 if the results agree.
        seconds: the time of one launch, the median of three if the launch is fast; None if it was not measured.
    """

    executor: str
    verdict: Verdict
    reason: str = ""
    error: float = 0.0
    seconds: float | None = None


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst verdict of a list, or "ok" if the list is empty."""
    return max(verdicts, key=SEVERITY.index, default="ok")


@dataclass(frozen=True)
class Standard:
    """Hold the arrays that the reference computed and their sensitivity to rounding, to judge executors by them.

    Attributes:
        arrays: the results of the reference, by name.
        sensitivity: the effect of rounding on each array.
        precision: the unit roundoff that bounds are computed with.
    """

    arrays: Arrays
    sensitivity: Mapping[str, Sensitivity]
    precision: Precision

    def judge(self, executor: str, outcome: Outcome, seconds: float | None = None) -> Comparison:
        """Return the comparison of an executor's outcome with the results of the reference."""
        if isinstance(outcome, OkOutcome):
            return self._arrays(executor, outcome.arrays, seconds)
        if isinstance(outcome, TrapOutcome):
            return Comparison(executor, "disagree", f"ended with {outcome}, the reference ran to its end", np.inf)
        if isinstance(outcome, UndecidedOutcome):
            return Comparison(executor, "undecided", outcome.reason)
        if isinstance(outcome, PoisonedOutcome):
            return Comparison(executor, "poisoned", outcome.reason)
        return Comparison(executor, "unsupported", outcome.reason)

    def _arrays(self, executor: str, found: Arrays, seconds: float | None) -> Comparison:
        parts = [self._array(executor, name, found[name]) for name in self.arrays if name in found]
        verdict = worst([p.verdict for p in parts])
        errors = [p.error for p in parts if p.verdict in DECIDED]
        reason = next((p.reason for p in parts if p.verdict == verdict), "")
        return Comparison(executor, verdict, reason, max(errors, default=0.0), seconds)

    def _array(self, executor: str, name: str, found: np.ndarray) -> Comparison:
        known, sensitive = self.arrays[name], self.sensitivity[name]
        if known.shape != found.shape:
            return Comparison(executor, "disagree", f"{name} has shape {found.shape}, not {known.shape}", np.inf)
        gap, alike = difference(known, found)
        bound = sensitive.bound(self.precision)
        if sensitive.poisoned:
            return Comparison(executor, "poisoned", f"{name}: NaN or infinity comes and goes with rounding")
        if not sensitive.decides(self.precision):
            share = f"rounding moves it by {sensitive.delta:.1e} of {sensitive.size:.1e}"
            return Comparison(executor, "undecided", f"{name}: {share}")
        if alike and gap <= bound:
            return Comparison(executor, "ok", "", gap / bound if gap else 0.0)
        # With a bound of 0, or with NaN at other places, the difference counts as infinite.
        error = gap / bound if alike and bound else np.inf
        return Comparison(executor, "disagree", f"{name}{_place(known, found, executor)}, bound {bound:.1e}", error)


def _place(known: np.ndarray, found: np.ndarray, executor: str) -> str:
    """Return a text with the indices of the element at which two arrays differ most, and with its two values."""
    a, b = known.astype(np.float64), found.astype(np.float64)
    with np.errstate(all="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    gaps = np.where(np.isnan(gaps), np.inf, gaps)
    at = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    index = f"[{', '.join(map(str, at))}]" if at else ""
    return f"{index}: {executor} has {b[at]:.9g}, the reference {a[at]:.9g}"
