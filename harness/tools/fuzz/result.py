"""This module defines the result of a case as plain data: its comparisons, its outcome and its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...testing.compare import Verdict
from ..relations import RELATIONS
from .plan import Key

OutcomeName = Literal["ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement"]
OUTCOMES: tuple[OutcomeName, ...] = ("ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement")
DECIDED: frozenset[OutcomeName] = frozenset({"ok", "trap", "disagreement"})


SURE = frozenset({"text", "types", "marks", "sizes", *RELATIONS})
"""Comparisons that no rounding leaves open, or that say nothing about correctness.

They count only if a direction has no other comparison.
"""
_WORST_FIRST: tuple[OutcomeName, ...] = ("trap", "undecided", "poisoned", "refused", "unsupported", "ok")


def _of_direction(found: set[Verdict]) -> OutcomeName:
    order: tuple[OutcomeName, ...] = ("trap", "ok", "undecided", "poisoned", "refused")
    return next((outcome for outcome in order if outcome in found), "unsupported")


@dataclass(frozen=True)
class JudgedComparison:
    """Represent the verdict of one comparison: `executor` is judged against the executor named by `reference`."""

    direction: str
    executor: str
    reference: str
    verdict: Verdict
    reason: str = ""

    @property
    def key(self) -> Key:
        """Return the direction and the executor of the comparison, by which plans and corpora name it."""
        return self.direction, self.executor

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.direction} {self.executor} against {self.reference}: {self.verdict}{why}"


@dataclass(frozen=True)
class CaseFeatures:
    """Represent measured features of a case, such as loop depth, trip count and adstack depth.

    Attributes:
        nest: Depth of nested loops in the text.
        trips: Number of trips of serial loops, counted once for all lanes.
        depth: Number of slots of the deepest adstack, 0 without adstacks.
        statements: Number of statements of the traced kernel.
        tags: Features that occur in the kernel, see `features.tags`.
    """

    nest: int = 0
    trips: int = 0
    depth: int = 0
    statements: int = 0
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CaseResult:
    """Represent the result of one case of the fuzzer: the verdict of each comparison, features, and seconds.

    Attributes:
        retried: True if it was undecided in its own precision and ran again in double precision with fewer trips.
        shapes: Properties of its program, see `strategies.SHAPES`, if the program was drawn for this case.
    """

    judged: tuple[JudgedComparison, ...]
    features: CaseFeatures = CaseFeatures()
    seconds: float = 0.0
    retried: bool = False
    shapes: frozenset[str] = frozenset()

    @property
    def disagreements(self) -> tuple[JudgedComparison, ...]:
        """Return the comparisons that failed."""
        return tuple(j for j in self.judged if j.verdict == "disagree")

    @property
    def outcome(self) -> OutcomeName:
        """Return the worst of the outcomes that the case has in forward and in reverse direction.

        A direction is open only if nothing in it was decided: a backend that declares a limit, or an oracle that cannot
        judge, does no harm as long as another executor was compared; see SURE.
        """
        if self.disagreements:
            return "disagreement"
        found = {_of_direction(self._verdicts(d)) for d in {j.direction for j in self.judged}}
        return next((outcome for outcome in _WORST_FIRST if outcome in found), "unsupported")

    def _verdicts(self, direction: str) -> set[Verdict]:
        mine = [j for j in self.judged if j.direction == direction]
        # The comparisons of SURE count only if there are no others.
        return {j.verdict for j in mine if j.executor not in SURE} or {j.verdict for j in mine}

    @property
    def differentiated(self) -> bool:
        """Return True if a gradient of the case was compared."""
        return any(j.direction == "reverse" and j.verdict != "refused" for j in self.judged)

    @property
    def has_oracle(self) -> bool:
        """Return True if an oracle independent of the compiler gave a verdict on the gradient."""
        return any(j.executor in ("dual", "jax") and j.verdict in ("ok", "disagree") for j in self.judged)
