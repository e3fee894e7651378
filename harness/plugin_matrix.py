"""The matrix backend × outcome at the end of a test run, from properties of reports, which cross processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..backends.base import Probe

PROPERTY = "backend"
"""Name of the property that a report carries; also shown in JUnit files."""

OUTCOMES = ("passed", "failed", "skipped")
_COUNTED = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped"}


def count(stats: Mapping[str, Iterable[Any]]) -> dict[str, Counter[str]]:
    """Outcomes by backend; an error around a test counts as a failure."""
    found: dict[str, Counter[str]] = {}
    for kind, outcome in _COUNTED.items():
        for report in stats.get(kind, ()):
            backend = dict(getattr(report, "user_properties", ())).get(PROPERTY)
            if backend:
                found.setdefault(backend, Counter())[outcome] += 1
    return found


def lines(counts: Mapping[str, Counter[str]], probes: Mapping[str, Probe]) -> list[str]:
    """The matrix, one line a backend, with the reason why one is absent."""
    out = [f"{'':12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
    for name, probe in probes.items():
        numbers = "".join(f"{counts[name][outcome]:>10}" for outcome in OUTCOMES) if name in counts else ""
        absent = "" if probe.available else f"    absent: {probe.reason}"
        if numbers or absent:
            out.append(f"{name:12}{numbers}{absent}")
    return out
