"""Count the results of a fuzzer run: outcomes and speed of its cases, and features of the programs."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

from ...testing.compare import Verdict
from ..model import Program
from .coverage import FeatureCounts
from .plan import FuzzPlan
from .result import DECIDED, OUTCOMES, CaseResult, JudgedComparison, OutcomeName

BUCKETS = (0, 1, 2, 4, 8, 16, 32)
"""Least number of trips of each row of the histogram."""


@dataclass(frozen=True)
class Finding:
    """Represent a program on which executors disagree, or that killed its process.

    Attributes:
        crash: How the process died, or empty.
        seed: Seed of the case; with `candidate` it gives the same case again, see `guide`.
    """

    program: Program
    plan: FuzzPlan
    judged: tuple[JudgedComparison, ...] = ()
    crash: str = ""
    seed: int | None = None
    candidate: int | None = None

    @property
    def case(self) -> str:
        """Return the name of the finding's case: the seed and, if there is one, the number of the candidate."""
        return f"seed {self.seed}" + ("" if self.candidate is None else f", candidate {self.candidate}")

    @property
    def title(self) -> str:
        """Return one line of text on the finding: the crash, or the first comparison that failed."""
        if self.crash:
            return f"crash: {self.crash}"
        return str(next((j for j in self.judged if j.verdict == "disagree"), "no disagreement"))


@dataclass
class Statistics:
    """Hold the counters of a fuzzer run: cases, outcomes, verdicts, features and findings.

    Attributes:
        outcomes: Number of cases by outcome.
        comparisons: Number of verdicts by direction and executor.
        features: Number of verdicts by feature, direction and executor.
        by_trips: Numbers of cases and of decided cases by bucket.
        milliseconds: Processor time of each case.
        coverage: Numbers of cases by feature.
        interrupted: True if the user ended the run before its time.
    """

    seed: int = 0
    cases: int = 0
    retried: int = 0
    crashes: int = 0
    stacked: int = 0
    nested: int = 0
    differentiated: int = 0
    by_oracle: int = 0
    elapsed: float = 0.0
    outcomes: Counter[OutcomeName] = field(default_factory=Counter)
    comparisons: Counter[tuple[str, str, Verdict]] = field(default_factory=Counter)
    features: Counter[tuple[str, str, str, Verdict]] = field(default_factory=Counter)
    by_trips: dict[int, list[int]] = field(default_factory=lambda: {b: [0, 0] for b in BUCKETS})
    milliseconds: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    coverage: FeatureCounts = field(default_factory=FeatureCounts)
    interrupted: bool = False

    def add(self, result: CaseResult) -> None:
        """Update the counters of the run by the result of a case."""
        self.cases += 1
        self.coverage.add(result)
        self.retried += result.retried
        self.stacked += result.features.depth > 0
        self.nested += result.features.nest >= 2
        self.differentiated += result.differentiated
        self.by_oracle += result.has_oracle
        self.outcomes[result.outcome] += 1
        self.milliseconds.append(1e3 * result.seconds)
        row = self.by_trips[max(b for b in BUCKETS if b <= result.features.trips)]
        row[0] += 1
        row[1] += result.outcome in DECIDED
        for judged in result.judged:
            key = judged.direction, judged.executor, judged.verdict
            self.comparisons[key] += 1
            self.features.update((tag, *key) for tag in result.features.tags)

    @property
    def rate(self) -> float:
        """Return the average number of cases that the run has completed per second."""
        return self.cases / self.elapsed if self.elapsed else 0.0

    @property
    def median(self) -> float:
        """Return the median processor time of a case in milliseconds."""
        return statistics.median(self.milliseconds) if self.milliseconds else 0.0

    @property
    def open_share(self) -> float:
        """Return the share of cases that ended without a decision, such as refused or undecided cases."""
        return sum(self.outcomes[o] for o in OUTCOMES if o not in DECIDED) / self.cases if self.cases else 0.0

    def line(self) -> str:
        """Return the status line of the run as text."""
        counted = ", ".join(f"{self.outcomes[o]} {o}" for o in OUTCOMES if self.outcomes[o])
        return f"{self.cases} cases, {self.rate:.1f}/s: {counted or 'none yet'}; {self.crashes} crashes"

    def table(self) -> list[tuple[str, str]]:
        """Return the lines that a run prints at its end, each as a label and a value."""

        def share(n: int) -> str:
            return f"{n / self.cases:.0%}" if self.cases else "-"

        rows = [("seed", str(self.seed)), ("cases", f"{self.cases} in {self.elapsed:.1f} s, {self.rate:.1f}/s")]
        rows += [(f"  {o}", f"{self.outcomes[o]} ({share(self.outcomes[o])})") for o in OUTCOMES if self.outcomes[o]]
        rows += [
            ("decided nothing", f"{self.open_share:.1%}"),
            ("retried in f64", str(self.retried)),
            ("crashes", str(self.crashes)),
            ("median case", f"{self.median:.1f} ms of processor time"),
            ("gradients judged by an oracle", f"{self.by_oracle} of {self.differentiated}"),
            ("adstacks in use", share(self.stacked)),
            ("loops nested", share(self.nested)),
        ]
        for low, (cases, decided) in self.by_trips.items():
            if cases:
                rows.append((f"{low} trips or more", f"{decided} of {cases} decided"))
        return rows
