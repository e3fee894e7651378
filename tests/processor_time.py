"""Measure where a run of the tests spends processor time: `pytest -n auto --cost FILE`.

Processor time counts every thread of a worker and the processes that a test started and waited for, so it says the same
on a busy machine and on an idle one. FILE receives one line for each test, and the end of the output shows the folders
and the families (all tests of one function) that cost most.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

SHOWN = 40
"""Number of families in the summary."""

COLLECTING = "(collecting the tests)"
"""Stands for the time before the first test: starting Python, importing the modules of tests."""


def spent() -> float:
    """Return the seconds of processor time of this process and of all children that it has waited for."""
    times = os.times()  # counts hundredths of a second, too coarse for this process
    return time.process_time() + times.children_user + times.children_system


def folder_of(name: str) -> str:
    """Return the folder of a test's name."""
    return name.partition("::")[0].rpartition("/")[0] or name


def family_of(name: str) -> str:
    """Return the name of a test without its parameters; all checks of a .kir file are one family."""
    path, _, test = name.partition("::")
    return path if path.endswith(".kir") or not test else f"{path}::{test.partition('[')[0]}"


def table(costs: Mapping[str, float], group: Callable[[str], str], limit: int | None = None) -> list[str]:
    """Return lines of seconds, number of tests and name, the most expensive group first."""
    found: dict[str, list[float]] = {}
    for name, cost in costs.items():
        found.setdefault(group(name), []).append(cost)
    ranked = sorted(found.items(), key=lambda entry: -sum(entry[1]))[:limit]
    return [f"{sum(each):9.1f} s {len(each):6} tests  {name}" for name, each in ranked]


class Meter:
    """Add up the processor time of each test; with xdist, the reports of the workers carry the numbers."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.costs: dict[str, float] = {}
        self.booked = 0.0
        self.collecting = 0.0

    def lap(self) -> float:
        """Return the seconds spent since the previous call."""
        before, self.booked = self.booked, spent()
        return self.booked - before

    def pytest_collection_finish(self) -> None:
        """Count the time of collecting tests as part of the next report, because every worker collects."""
        self.collecting = self.lap()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Store in each report the processor time of its phase, in the process that ran it."""
        report = yield
        report.processor_time = {report.nodeid: self.lap(), COLLECTING: self.collecting}
        self.collecting = 0.0
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up the phases of a test; a test that killed its worker has no numbers."""
        for name, cost in getattr(report, "processor_time", {}).items():
            self.costs[name] = self.costs.get(name, 0.0) + cost

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the file and print the most expensive groups, also after an interrupted run."""
        ranked = sorted(self.costs.items(), key=lambda entry: -entry[1])
        self.target.write_text("".join(f"{cost:.4f}\t{name}\n" for name, cost in ranked), encoding="utf-8")
        terminalreporter.section(f"processor time: {sum(self.costs.values()):.0f} s", sep="-")
        for line in [*table(self.costs, folder_of), "", *table(self.costs, family_of, SHOWN)]:
            terminalreporter.write_line(line)
