"""Count how many cases of a run have each feature, and in how many of them the executors came to a decision.

A feature that few programs have, or whose cases mostly stay open, hides mistakes: the table of a run shows both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..strategies import SHAPES
from .result import DECIDED, CaseResult

Feature = tuple[str, str]
"""A kind of feature, which is a key of KINDS, and its name."""
KINDS = {
    "program": "properties of programs",
    "kernel": "statements, operations and loops of kernels",
    "comparison": "comparisons, by direction and executor",
}
"""Titles of the parts of the table."""
_VERDICTS = frozenset({"ok", "trap", "disagree"})
"""Verdicts of a comparison that was decided."""


@dataclass
class FeatureCounts:
    """Hold the numbers of cases by feature.

    Attributes:
        total: Number of all cases.
        cases: Number of cases that have the feature.
        decided: Number of these cases that were decided. A comparison is decided if its own verdict is.
        by_oracle: Number of these cases whose gradient an oracle judged.
    """

    total: int = 0
    cases: Counter[Feature] = field(default_factory=Counter)
    decided: Counter[Feature] = field(default_factory=Counter)
    by_oracle: Counter[Feature] = field(default_factory=Counter)

    @classmethod
    def of_rows(cls, total: int, rows: Iterable[tuple[str, str, int, int, int]]) -> FeatureCounts:
        """Return the counts whose rows are given, with the number of all cases."""
        found = cls(total)
        for kind, name, *numbers in rows:
            for counts, number in zip((found.cases, found.decided, found.by_oracle), numbers):
                if number:
                    counts[kind, name] = number
        return found

    def rows(self) -> list[tuple[str, str, int, int, int]]:
        """Return (kind, name, cases, decided cases, cases judged by an oracle) of each feature that was counted."""
        return [(*f, self.cases[f], self.decided[f], self.by_oracle[f]) for f in sorted(self.cases)]

    def update(self, other: FeatureCounts) -> None:
        """Add the counts of another run."""
        self.total += other.total
        self.cases.update(other.cases)
        self.decided.update(other.decided)
        self.by_oracle.update(other.by_oracle)

    def add(self, result: CaseResult) -> None:
        """Count the features of a case."""
        compared = {judged.key for judged in result.judged}
        settled = {judged.key for judged in result.judged if judged.verdict in _VERDICTS}
        found = [("program", name) for name in result.shapes] + [("kernel", name) for name in result.features.tags]
        self.total += 1
        self.cases.update(found)
        self.cases.update(map(_of_comparison, compared))
        self.decided.update(found if result.outcome in DECIDED else ())
        self.decided.update(map(_of_comparison, settled))
        if result.has_oracle:
            self.by_oracle.update(found)
            self.by_oracle.update(map(_of_comparison, compared))

    def text(self) -> str:
        """Return the table of all features, in cases of 1,000; the rarest features of each part stand first."""
        lines = [f"of 1,000 cases, from {self.total}:"]
        for kind, title in KINDS.items():
            known = {(kind, name) for name in SHAPES} if kind == "program" else set()
            found = known | {feature for feature in self.cases if feature[0] == kind}
            lines += ["", f"{'cases':>7}  {'decided':>7}  {'oracle':>7}  {title}"]
            lines += [self._line(feature) for feature in sorted(found, key=lambda f: (self.cases[f], f))]
        return "\n".join(lines)

    def _line(self, feature: Feature) -> str:
        counts = (self.cases[feature], self.decided[feature], self.by_oracle[feature])
        numbers = "  ".join(f"{1e3 * count / max(self.total, 1):7.1f}" for count in counts)
        return f"{numbers}  {feature[1]}"


def _of_comparison(key: tuple[str, str]) -> Feature:
    return "comparison", " ".join(key)
