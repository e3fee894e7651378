"""This module converts results of campaign units to plain data that JSON can hold, and back, and adds them up.

A unit may come from a stranger, so it is read as `CampaignUnit` and as nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ...testing.compare import Verdict
from ..fuzz import words
from ..fuzz.coverage import FeatureCounts
from ..fuzz.plan import FuzzPlan
from ..fuzz.result import JudgedComparison, OutcomeName
from ..fuzz.statistics import BUCKETS, Finding, Statistics
from ..model import from_json, to_json
from ..plain_data import TEXT, AllowedWords, MalformedDataError, NumberLimits, Schema, matching

Plain = dict[str, Any]
_NUMBERS = ("cases", "retried", "crashes", "stacked", "nested", "differentiated", "by_oracle")


@dataclass(frozen=True)
class UnitFinding:
    """Represent a finding of a campaign unit as plain data; `program` is the program as JSON text."""

    program: str
    plan: FuzzPlan
    judged: tuple[JudgedComparison, ...]
    crash: str
    seed: int | None
    candidate: int | None = None


@dataclass(frozen=True)
class CampaignUnit:
    """Represent the results of one campaign unit as its file holds them: counters, times and findings."""

    seed: int
    elapsed: float
    cases: int
    retried: int
    crashes: int
    stacked: int
    nested: int
    differentiated: int
    by_oracle: int
    outcomes: dict[OutcomeName, int]
    comparisons: tuple[tuple[str, str, Verdict, int], ...]
    features: tuple[tuple[str, str, str, Verdict, int], ...]
    by_trips: tuple[tuple[int, int, int], ...]
    milliseconds: tuple[float, ...]
    findings: tuple[UnitFinding, ...]
    counted: int = 0
    coverage: tuple[tuple[str, str, int, int, int], ...] = ()
    unit: int = 0
    ended: float = 0.0


_COUNT = NumberLimits(0, 1 << 62)
SCHEMA = Schema(
    {
        **words.WORDS,
        ("CampaignUnit", "comparisons"): words.COMPARED,
        ("CampaignUnit", "outcomes"): words.COMPARED,
        ("CampaignUnit", "features"): matching("the name of a feature", r"[A-Za-z0-9_][A-Za-z0-9 _.:*/<>=+-]*"),
        ("CampaignUnit", "coverage"): matching("the name of a feature", r"[A-Za-z0-9_][A-Za-z0-9 _.,:*/<>=+-]*"),
        ("UnitFinding", "program"): AllowedWords("the text of a program", lambda text: len(text) <= 4 << 20),
        ("UnitFinding", "crash"): TEXT,
    },
    {
        **words.LIMITS,
        **{("CampaignUnit", name): _COUNT for name in (*_NUMBERS, "unit", "counted", "outcomes", "by_trips")},
        ("CampaignUnit", "coverage"): _COUNT,
        ("CampaignUnit", "comparisons"): _COUNT,
        ("CampaignUnit", "features"): _COUNT,
        ("CampaignUnit", "seed"): NumberLimits(-(1 << 62), 1 << 62),
        ("UnitFinding", "seed"): NumberLimits(-(1 << 62), 1 << 62),
        ("UnitFinding", "candidate"): NumberLimits(0, 2),
    },
    most=1 << 26,
)


def to_plain(found: Statistics) -> Plain:
    """Return the statistics of a fuzzer run as data that JSON can represent."""
    plain: Plain = {name: getattr(found, name) for name in ("seed", "elapsed", *_NUMBERS)}
    plain["outcomes"] = dict(found.outcomes)
    plain["comparisons"] = [[*key, count] for key, count in sorted(found.comparisons.items())]
    plain["features"] = [[*key, count] for key, count in sorted(found.features.items())]
    plain["by_trips"] = [[low, *row] for low, row in found.by_trips.items()]
    plain["counted"], plain["coverage"] = found.coverage.total, found.coverage.rows()
    plain["milliseconds"] = [round(ms, 2) for ms in found.milliseconds]
    plain["findings"] = [_finding(f) for f in found.findings]
    return plain


def _finding(found: Finding) -> Plain:
    return {
        "program": to_json(found.program),
        "plan": asdict(found.plan),
        "crash": found.crash,
        "seed": found.seed,
        "candidate": found.candidate,
        "judged": [asdict(j) for j in found.judged],
    }


def from_plain(plain: Plain) -> Statistics:
    """Return the statistics of a fuzzer run from the plain data that `to_plain` made of them.

    Raises:
        MalformedDataError: the data has another form (a ValueError).
    """
    return _statistics(SCHEMA.read(plain, CampaignUnit))


def ended_and_found(text: str) -> tuple[float, Statistics]:
    """Return the time at which a campaign unit ended and its statistics, parsed from the text of its file.

    Raises:
        MalformedDataError: the text has another form.
    """
    unit: CampaignUnit = SCHEMA.parse(text, CampaignUnit)
    return unit.ended, _statistics(unit)


def _statistics(unit: CampaignUnit) -> Statistics:
    rows = {low: [cases, decided] for low, cases, decided in unit.by_trips}
    if rows.keys() != set(BUCKETS):
        raise MalformedDataError("its rows of trips are others", f"rows: {', '.join(map(str, BUCKETS))}")
    found = Statistics(unit.seed, elapsed=unit.elapsed, by_trips=rows, milliseconds=list(unit.milliseconds))
    for name in _NUMBERS:
        setattr(found, name, getattr(unit, name))
    found.outcomes = Counter(unit.outcomes)
    found.comparisons = Counter({(d, e, v): count for d, e, v, count in unit.comparisons})
    found.features = Counter({(t, d, e, v): count for t, d, e, v, count in unit.features})
    found.coverage = FeatureCounts.of_rows(unit.counted, unit.coverage)
    found.findings = [_found(f) for f in unit.findings]
    return found


def _found(found: UnitFinding) -> Finding:
    return Finding(from_json(found.program), found.plan, found.judged, found.crash, found.seed, found.candidate)


def total(parts: Iterable[Statistics], seed: int = 0) -> Statistics:
    """Return the sum of several statistics; `elapsed` is the sum of the durations of all parts."""
    out = Statistics(seed)
    for part in parts:
        for name in _NUMBERS:
            setattr(out, name, getattr(out, name) + getattr(part, name))
        out.elapsed += part.elapsed
        out.outcomes.update(part.outcomes)
        out.comparisons.update(part.comparisons)
        out.features.update(part.features)
        out.coverage.update(part.coverage)
        out.milliseconds += part.milliseconds
        out.findings += part.findings
        for low in BUCKETS:
            out.by_trips[low] = [a + b for a, b in zip(out.by_trips[low], part.by_trips[low])]
    return out
