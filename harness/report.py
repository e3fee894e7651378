"""What a check found: one row per kernel and direction, the findings, and whether all of it passes.

Invariant: a comparison is counted once, under its verdict; what decided nothing is never among the ok.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backends.usage import SlabUse
from .compare import DECIDED, FAILURES, OPEN, Comparison, Verdict, worst
from .replay import Case, Direction

MOST_OPEN = 0.2
"""The largest share of comparisons that may decide nothing."""

REFERENCE = "reference"
_DECISIVE = DECIDED | OPEN


@dataclass(frozen=True)
class Finding:
    """Something wrong that no comparison shows. kernel, array: what it is about; empty if it is about the program."""

    text: str
    kernel: str = ""
    array: str = ""


@dataclass(frozen=True)
class Cell:
    """One executor on one row. error: largest difference over its bound. seconds: of a launch, in own precision."""

    verdict: Verdict
    error: float = 0.0
    seconds: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One kernel in one direction. launches: how often the program launched it so. cases: how many were compared,
    each launch once a precision.

    precisions: those it was compared in. adstack_bytes: adstack memory that its gradient needs, all tasks.
    """

    kernel: str
    direction: Direction
    verdict: Verdict
    cells: Mapping[str, Cell]
    precisions: tuple[str, ...]
    launches: int
    cases: int
    adstack_bytes: int = 0
    adstacks: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The largest difference over its bound, all executors."""
        return max((cell.error for cell in self.cells.values()), default=0.0)


@dataclass
class Report:
    """A check of one program. error: how the program itself ended, if it raised. absent: backends that are not here."""

    program: str
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    executors: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None

    @property
    def open_share(self) -> float:
        """Share of comparisons that decided nothing, declared limits aside."""
        decisive = sum(self.counts[v] for v in _DECISIVE)
        return sum(self.counts[v] for v in OPEN) / decisive if decisive else 0.0

    @property
    def failures(self) -> list[str]:
        """Every reason why the check fails, one a line; empty if it passes."""
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
        """Whether the program is right as far as the check can see."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dump`; infinite errors are null."""
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


def _row_json(row: Row) -> dict[str, Any]:
    cells = {
        name: {"verdict": c.verdict, "error": _number(c.error), "seconds": c.seconds, "reasons": list(c.reasons)}
        for name, c in row.cells.items()
    }
    return {**vars(row), "cells": cells, "error": _number(row.error)}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# ---- from cases to rows -------------------------------------------------------------------------------------


def make_row(name: str, cases: Sequence[Case], launches: int) -> Row:
    """The row of all cases of one kernel and direction; there is at least one."""
    decisive = [c for c in cases if c.verdict != "unsupported"] or list(cases)
    verdict = worst([c.verdict for c in decisive])
    stacks = next((c.adstacks for c in reversed(cases) if c.adstacks), ())
    return Row(
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


def _reasons(case: Case) -> list[str]:
    """Why a case has its verdict."""
    found = [case.reason] if case.reason and case.verdict == case.reference else []
    return found + [f"{case.precision}: {c.reason}" for c in case.comparisons if c.verdict == case.verdict and c.reason]


def _cells(cases: Sequence[Case]) -> dict[str, Cell]:
    found = {REFERENCE: _reference_cell(cases)}
    for name in dict.fromkeys(c.executor for case in cases for c in case.comparisons):
        pairs = [(case.precision, c) for case in cases for c in case.comparisons if c.executor == name]
        found[name] = _cell(pairs)
    return found


def _reference_cell(cases: Sequence[Case]) -> Cell:
    decisive = [c for c in cases if c.reference != "unsupported"] or cases
    reasons = tuple(dict.fromkeys(c.reason for c in decisive if c.reason))
    return Cell(worst([c.reference for c in decisive]), 0.0, _median(c.seconds for c in cases[-1:]), reasons)


def _cell(pairs: Sequence[tuple[str, Comparison]]) -> Cell:
    """Limits of an executor show only where they left it nothing to do; times are those of the last precision."""
    decisive = [(p, c) for p, c in pairs if c.verdict != "unsupported"] or pairs
    verdict = worst([c.verdict for _, c in decisive])
    reasons = [f"{p}: {c.reason}" for p, c in pairs if c.verdict == verdict and c.reason]
    errors = [c.error for _, c in pairs if c.verdict in DECIDED]
    seconds = _median(c.seconds for p, c in pairs if p == pairs[-1][0])
    return Cell(verdict, max(errors, default=0.0), seconds, tuple(dict.fromkeys(reasons)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None
