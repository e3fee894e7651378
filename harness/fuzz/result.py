"""What became of a case: its comparisons, what they come to, and what kind of program it was. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..compare import Verdict
from ..relations import RELATIONS
from .plan import Key

Outcome = Literal["ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement")
DECIDED: frozenset[Outcome] = frozenset({"ok", "trap", "disagreement"})


SURE = frozenset({"text", "types", "marks", "sizes", *RELATIONS})
"""Comparisons that no rounding leaves open, or that say nothing of what is right: they count only where they are all
there is."""
_WORST_FIRST: tuple[Outcome, ...] = ("trap", "undecided", "poisoned", "refused", "unsupported", "ok")


def _of_direction(found: set[Verdict]) -> Outcome:
    order: tuple[Outcome, ...] = ("trap", "ok", "undecided", "poisoned", "refused")
    return next((outcome for outcome in order if outcome in found), "unsupported")


@dataclass(frozen=True)
class Judged:
    """One comparison. executor against `reference`, the name of what it was compared with."""

    direction: str
    executor: str
    reference: str
    verdict: Verdict
    reason: str = ""

    @property
    def key(self) -> Key:
        """Which comparison of a case this is."""
        return self.direction, self.executor

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.direction} {self.executor} against {self.reference}: {self.verdict}{why}"


@dataclass(frozen=True)
class Features:
    """nest: depth of nested loops in the text. trips: bodies of serial loops run, once for all lanes. depth: slots of
    the deepest adstack, 0 without any. statements: of the traced kernel. tags: what occurs in it, see `features.tags`.
    """

    nest: int = 0
    trips: int = 0
    depth: int = 0
    statements: int = 0
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Result:
    """A case. retried: it was undecided in its own precision and ran again in double with fewer trips. shapes: of its
    program, see `strategies.SHAPES`, where it was drawn for this case.
    """

    judged: tuple[Judged, ...]
    features: Features = Features()
    seconds: float = 0.0
    retried: bool = False
    shapes: frozenset[str] = frozenset()

    @property
    def disagreements(self) -> tuple[Judged, ...]:
        """The comparisons that failed."""
        return tuple(j for j in self.judged if j.verdict == "disagree")

    @property
    def outcome(self) -> Outcome:
        """The worst of both directions. A direction is open only if nothing in it was decided: a backend that declares
        a limit, or an oracle that has no say, harms nothing as long as another executor was compared; see SURE.
        """
        if self.disagreements:
            return "disagreement"
        found = {_of_direction(self._verdicts(d)) for d in {j.direction for j in self.judged}}
        return next((outcome for outcome in _WORST_FIRST if outcome in found), "unsupported")

    def _verdicts(self, direction: str) -> set[Verdict]:
        mine = [j for j in self.judged if j.direction == direction]
        return {j.verdict for j in mine if j.executor not in SURE} or {j.verdict for j in mine}

    @property
    def differentiated(self) -> bool:
        """Whether there was a gradient to compare."""
        return any(j.direction == "reverse" and j.verdict != "refused" for j in self.judged)

    @property
    def has_oracle(self) -> bool:
        """Whether an independent judge decided on the gradient."""
        return any(j.executor in ("dual", "jax") and j.verdict in ("ok", "disagree") for j in self.judged)
