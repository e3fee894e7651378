"""This module represents the report of a check: a row per kernel and direction, the findings, and the verdict.

Invariant: a comparison is counted once, under its verdict; a comparison that decided nothing is never counted as ok.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backends.launching.adstack_usage import SlabUse
from .compare import DECIDED, FAILURES, OPEN, Comparison, Verdict, worst
from .replay import Direction, ReplayCase

MOST_OPEN = 0.2
"""Largest share of comparisons that may decide nothing."""

REFERENCE = "reference"
_DECISIVE = DECIDED | OPEN


@dataclass(frozen=True)
class ReportedFault:
    """Represent a fault of the program, such as a NaN, that was found without comparing executors.

    Attributes:
        text: the message for the report.
        kernel: the kernel concerned; empty if the fault concerns the program.
        array: the array concerned, or empty.
    """

    text: str
    kernel: str = ""
    array: str = ""


@dataclass(frozen=True)
class ReportCell:
    """Represent the verdict on one executor for one kernel and direction.

    Attributes:
        verdict: the worst verdict.
        error: the largest difference divided by its bound.
        seconds: the time of a launch in the kernel's own precision.
        reasons: the causes of the verdict.
    """

    verdict: Verdict
    error: float = 0.0
    seconds: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportRow:
    """Represent one row of a report: all executors' results for one kernel in one direction.

    Attributes:
        kernel: the name of the kernel.
        direction: "forward" or "reverse".
        verdict: the worst verdict of all cases.
        cells: the verdict on each executor, by name.
        precisions: the precisions in which cases were compared.
        launches: how often the program launched the kernel in this direction.
        cases: the number of cases; each launch counts once per precision.
        adstack_bytes: the adstack memory of the gradient in bytes, all tasks together.
        adstacks: a text about each slab of each task.
        reasons: the causes of the verdict.
    """

    kernel: str
    direction: Direction
    verdict: Verdict
    cells: Mapping[str, ReportCell]
    precisions: tuple[str, ...]
    launches: int
    cases: int
    adstack_bytes: int = 0
    adstacks: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Return the largest difference between executors as a multiple of the difference that rounding allows."""
        return max((cell.error for cell in self.cells.values()), default=0.0)


@dataclass
class CheckReport:
    """Represent the report of the check of one program: a row per kernel and direction, and the findings.

    Attributes:
        program: the name of the program.
        rows: one row per kernel and direction.
        findings: faults that no comparison shows.
        counts: the number of comparisons by verdict.
        executors: the names of all executors.
        absent: backends that cannot run on this machine, with the reason.
        error: the exception that ended the program, or None.
    """

    program: str
    rows: list[ReportRow] = field(default_factory=list)
    findings: list[ReportedFault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    executors: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None

    @property
    def open_share(self) -> float:
        """Return the share of comparisons that were undecided or poisoned; unsupported ones do not count."""
        decisive = sum(self.counts[v] for v in _DECISIVE)
        return sum(self.counts[v] for v in OPEN) / decisive if decisive else 0.0

    @property
    def failures(self) -> list[str]:
        """Return all reasons why the check fails, or an empty list if it passes."""
        found = [f"the program failed: {self.error}"] if self.error else []
        found += [finding.text for finding in self.findings]
        for row in (r for r in self.rows if r.verdict in FAILURES):
            found += [f"{row.kernel} ({row.direction}): {reason}" for reason in row.reasons]
        if self.open_share > MOST_OPEN:
            found.append(
                f"{self.open_share:.0%} of the comparisons decided nothing, at most {MOST_OPEN:.0%} may; "
                "cure: run the program in double precision, or with fewer steps in a kernel"
            )
        return found

    @property
    def passed(self) -> bool:
        """Return True if the check found no failure."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `json.dump`; infinite errors become null."""
        return {
            "program": self.program,
            "passed": self.passed,
            "failures": self.failures,
            "error": self.error,
            "executors": list(self.executors),
            "absent": dict(self.absent),
            "counts": dict(self.counts),
            "open_share": self.open_share,
            "findings": [vars(f) for f in self.findings],
            "rows": [_row_json(row) for row in self.rows],
        }


def _row_json(row: ReportRow) -> dict[str, Any]:
    cells = {
        name: {"verdict": c.verdict, "error": _number(c.error), "seconds": c.seconds, "reasons": list(c.reasons)}
        for name, c in row.cells.items()
    }
    return {**vars(row), "cells": cells, "error": _number(row.error)}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# ---- from cases to rows -------------------------------------------------------------------------------------


def make_row(name: str, cases: Sequence[ReplayCase], launches: int) -> ReportRow:
    """Return the report row of one kernel and direction, from the replay cases of its launches.

    Args:
        name: the name of the kernel.
        cases: at least one replay case.
        launches: how often the program launched the kernel in this direction.
    """
    decisive = [c for c in cases if c.verdict != "unsupported"] or list(cases)
    verdict = worst([c.verdict for c in decisive])
    stacks = next((c.adstacks for c in reversed(cases) if c.adstacks), ())
    return ReportRow(
        kernel=name,
        direction=cases[0].direction,
        verdict=verdict,
        cells=_cells(cases),
        precisions=tuple(dict.fromkeys(c.precision for c in cases if c.verdict != "unsupported")),
        launches=launches,
        cases=len(cases),
        adstack_bytes=sum(use.bytes for use in stacks),
        adstacks=tuple(_stack_text(use) for use in stacks),
        reasons=tuple(dict.fromkeys(r for c in decisive if c.verdict == verdict for r in _reasons(c))),
    )


def _stack_text(use: SlabUse) -> str:
    slots = ", ".join(f"{s.variable}[{s.capacity}] of {s.slot_bytes} B" for s in use.stacks)
    rows = "one row a thread" if use.rows is None else f"{use.rows} rows"
    return f"task {use.task}, {use.slab}: {slots}; {rows}"


def _reasons(case: ReplayCase) -> list[str]:
    """Return the reasons of those comparisons in a replay case whose verdict is that of the whole case."""
    found = [case.reason] if case.reason and case.verdict == case.reference else []
    return found + [f"{case.precision}: {c.reason}" for c in case.comparisons if c.verdict == case.verdict and c.reason]


def _cells(cases: Sequence[ReplayCase]) -> dict[str, ReportCell]:
    found = {REFERENCE: _reference_cell(cases)}
    for name in dict.fromkeys(c.executor for case in cases for c in case.comparisons):
        pairs = [(case.precision, c) for case in cases for c in case.comparisons if c.executor == name]
        found[name] = _cell(pairs)
    return found


def _reference_cell(cases: Sequence[ReplayCase]) -> ReportCell:
    decisive = [c for c in cases if c.reference != "unsupported"] or cases
    reasons = tuple(dict.fromkeys(c.reason for c in decisive if c.reason))
    # The last case is in the kernel's own precision, in which times count.
    return ReportCell(worst([c.reference for c in decisive]), 0.0, _median(c.seconds for c in cases[-1:]), reasons)


def _cell(pairs: Sequence[tuple[str, Comparison]]) -> ReportCell:
    """Return the report cell of one executor, from its comparisons and the precision of each of them.

    Declared limits count only if no comparison was possible. Times are those of the last precision.
    """
    decisive = [(p, c) for p, c in pairs if c.verdict != "unsupported"] or pairs
    verdict = worst([c.verdict for _, c in decisive])
    reasons = [f"{p}: {c.reason}" for p, c in pairs if c.verdict == verdict and c.reason]
    errors = [c.error for _, c in pairs if c.verdict in DECIDED]
    seconds = _median(c.seconds for p, c in pairs if p == pairs[-1][0])
    return ReportCell(verdict, max(errors, default=0.0), seconds, tuple(dict.fromkeys(reasons)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None
