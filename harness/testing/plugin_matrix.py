"""This module makes the table of backends and test outcomes that pytest prints at the end of a run.

It reads properties of test reports, because these travel from worker processes to the main process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ...backends.base import Probe

PROPERTY = "backend"
"""Name of the property of a test report that holds the backend. JUnit files show it too."""

OUTCOMES = ("passed", "failed", "skipped")
_COUNTED = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped"}


def count_outcomes(stats: Mapping[str, Iterable[Any]]) -> dict[str, Counter[str]]:
    """Return the number of each outcome by backend; an error in a fixture counts as a failure."""
    found: dict[str, Counter[str]] = {}
    for kind, outcome in _COUNTED.items():
        for report in stats.get(kind, ()):
            backend = dict(getattr(report, "user_properties", ())).get(PROPERTY)
            if backend:
                found.setdefault(backend, Counter())[outcome] += 1
    return found


def table_lines(counts: Mapping[str, Counter[str]], probes: Mapping[str, Probe]) -> list[str]:
    """Return the table, one line for each backend, with the reason why a backend is absent."""
    out = [f"{'':12}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
    for name, probe in probes.items():
        numbers = "".join(f"{counts[name][outcome]:>10}" for outcome in OUTCOMES) if name in counts else ""
        absent = "" if probe.available else f"    absent: {probe.reason}"
        if numbers or absent:
            out.append(f"{name:12}{numbers}{absent}")
    return out
