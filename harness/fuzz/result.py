"""What became of a case: its comparisons, what they come to, and what kind of program it was. Plain data."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..compare import Verdict
from .plan import Key

Outcome = Literal["ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "trap", "unsupported", "refused", "poisoned", "undecided", "disagreement")
DECIDED: frozenset[Outcome] = frozenset({"ok", "trap", "disagreement"})


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
    """nest: depth of nested loops in the text. trips: iterations of the longest loop run. depth: slots of the deepest
    adstack, 0 without any. statements: of the traced kernel.
    """

    nest: int = 0
    trips: int = 0
    depth: int = 0
    statements: int = 0


@dataclass(frozen=True)
class Result:
    """A case. retried: it was undecided in its own precision and ran again in double with fewer trips."""

    judged: tuple[Judged, ...]
    features: Features = Features()
    seconds: float = 0.0
    retried: bool = False

    @property
    def disagreements(self) -> tuple[Judged, ...]:
        """The comparisons that failed."""
        return tuple(j for j in self.judged if j.verdict == "disagree")

    @property
    def outcome(self) -> Outcome:
        """The forward kernel decides, then its gradient: what was not run is not what was right.

        A backend that declares a limit harms nothing as long as another comparison was made.
        """
        found = {j.verdict for j in self.judged}
        if "disagree" in found:
            return "disagreement"
        order: tuple[Outcome, ...] = ("trap", "undecided", "poisoned", "refused")
        for outcome in order:
            if outcome in found:
                return outcome
        return "ok" if "ok" in found else "unsupported"
