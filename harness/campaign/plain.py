"""Results of units as plain data, and their sum."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..fuzz.corpus import plan_from_plain
from ..fuzz.result import Judged
from ..fuzz.statistics import BUCKETS, Finding, Statistics
from ..model import from_json, to_json

Plain = dict[str, Any]
_NUMBERS = ("cases", "retried", "crashes", "stacked", "nested", "differentiated", "by_oracle")


def to_plain(found: Statistics) -> Plain:
    """Statistics as what JSON can say."""
    plain: Plain = {name: getattr(found, name) for name in ("seed", "elapsed", *_NUMBERS)}
    plain["outcomes"] = dict(found.outcomes)
    plain["comparisons"] = [[*key, count] for key, count in sorted(found.comparisons.items())]
    plain["features"] = [[*key, count] for key, count in sorted(found.features.items())]
    plain["by_trips"] = [[low, *row] for low, row in found.by_trips.items()]
    plain["milliseconds"] = [round(ms, 2) for ms in found.milliseconds]
    plain["findings"] = [_finding(f) for f in found.findings]
    return plain


def _finding(found: Finding) -> Plain:
    return {
        "program": to_json(found.program), "plan": asdict(found.plan), "crash": found.crash, "seed": found.seed,
        "candidate": found.candidate, "judged": [asdict(j) for j in found.judged],
    }  # fmt: skip


def from_plain(plain: Plain) -> Statistics:
    """Statistics that `to_plain` made plain."""
    found = Statistics(plain["seed"], elapsed=plain["elapsed"])
    for name in _NUMBERS:
        setattr(found, name, plain[name])
    found.outcomes = Counter(plain["outcomes"])
    found.comparisons = Counter({tuple(key): count for *key, count in plain["comparisons"]})  # type: ignore[misc]
    found.features = Counter({tuple(key): count for *key, count in plain["features"]})  # type: ignore[misc]
    found.by_trips = {low: row for low, *row in plain["by_trips"]}
    found.milliseconds = list(plain["milliseconds"])
    found.findings = [
        Finding(
            from_json(f["program"]), plan_from_plain(f["plan"]), tuple(Judged(**j) for j in f["judged"]),
            f["crash"], f["seed"], f.get("candidate"),
        )
        for f in plain["findings"]
    ]  # fmt: skip
    return found


def total(parts: Iterable[Statistics], seed: int = 0) -> Statistics:
    """The sum. elapsed: of all parts one after the other."""
    out = Statistics(seed)
    for part in parts:
        for name in _NUMBERS:
            setattr(out, name, getattr(out, name) + getattr(part, name))
        out.elapsed += part.elapsed
        out.outcomes.update(part.outcomes)
        out.comparisons.update(part.comparisons)
        out.features.update(part.features)
        out.milliseconds += part.milliseconds
        out.findings += part.findings
        for low in BUCKETS:
            out.by_trips[low] = [a + b for a, b in zip(out.by_trips[low], part.by_trips[low])]
    return out
