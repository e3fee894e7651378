"""This module makes the report of a campaign as plain data, which the JSON file and the HTML page both show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ....compiler.ad.rules import VJP
from ....compiler.ad.statements import REVERSE
from ....compiler.ir.nodes import STATEMENTS, Atomic, Op
from ....compiler.ir.ops import ATOMIC_OPS, OPS, atomic_fits
from ....compiler.ir.types import f64
from ...testing.compare import Verdict
from ..fuzz.corpus import failed_key
from ..fuzz.statistics import Finding, Statistics
from ..model.source import definitions
from .plain_results import Plain, total
from .store import CampaignStore

_COMPARED: tuple[Verdict, ...] = ("ok", "disagree")
_FEATURES = ("statement ", "atomic ", "loop ", "task ", "tasks ", "gate")
"""Starts of the tags that are rows of the matrix; operations have a table of their own."""


def report(store: CampaignStore, findings: Sequence[Finding] | None = None, shown: Sequence[Plain] = ()) -> Plain:
    """Return the report of a campaign as plain data, from the results stored so far.

    Args:
        store: the folder of the campaign.
        findings: reduced findings to show in place of all findings of the campaign.
        shown: the results of `reproducers` for the first of the findings.
    """
    results = list(store.results())
    found = total((part for _, part in results), store.spec.seed)
    kept = list(found.findings if findings is None else findings)
    return {
        "planted": store.spec.mutant,
        "summary": summary(found),
        "outcomes": dict(found.outcomes),
        "executors": executors(found),
        "matrix": matrix(found),
        "coverage": coverage(found),
        "trips": [[low, *row] for low, row in found.by_trips.items()],
        "rates": [[ended, p.cases, round(p.rate, 2), round(p.open_share, 4)] for ended, p in results],
        "findings": [finding(f) | extra for f, extra in zip(kept, [*shown, *({} for _ in kept)])],
    }


def summary(found: Statistics) -> Plain:
    """Return the key figures of a campaign, such as its number of cases, for the top of a report."""
    return {
        "seed": found.seed,
        "cases": found.cases,
        "seconds of processes": round(found.elapsed, 1),
        "disagreements": found.outcomes["disagreement"],
        "crashes": found.crashes,
        "decided nothing": round(found.open_share, 4),
        "retried in f64": found.retried,
        "gradients": found.differentiated,
        "gradients judged by an oracle": found.by_oracle,
        "gradients judged by JAX": sum(found.comparisons["reverse", "jax", verdict] for verdict in _COMPARED),
        "median case, ms": round(found.median, 1),
        "adstacks in use": found.stacked,
        "loops nested": found.nested,
    }


def executors(found: Statistics) -> list[list[Any]]:
    """Return rows [direction, executor, {verdict: number of cases}], most cases first in each direction."""
    rows: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for (direction, executor, verdict), count in found.comparisons.items():
        rows[direction, executor][verdict] = count
    return sorted(([*key, row] for key, row in rows.items()), key=lambda row: (row[0], -sum(row[2].values())))


def matrix(found: Statistics) -> Plain:
    """Return {feature: {executor: [cases compared, disagreements]}}, both directions together."""
    rows: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (tag, _, executor, verdict), count in found.features.items():
        if tag.startswith(_FEATURES) and verdict in _COMPARED:
            cell = rows[tag].setdefault(executor, [0, 0])
            cell[0] += count
            cell[1] += count if verdict == "disagree" else 0
    return {tag: rows[tag] for tag in sorted(rows)}


def coverage(found: Statistics) -> Plain:
    """Return, for each statement, operation and derivative rule, the number of decided comparisons with it.

    An entry of 0 was never reached. Statements of adstacks are left out, because no program has them before it is
    differentiated.
    """
    by_tag: Counter[str] = Counter()
    backward: Counter[str] = Counter()
    reverse: Counter[str] = Counter()
    for (tag, direction, _, verdict), count in found.features.items():
        if verdict in _COMPARED:
            by_tag[tag] += count
            if direction == "reverse":
                backward[tag] += count
                if tag.endswith((" f16", " f32", " f64")):
                    reverse[tag] += count
    return {
        "statements": {name: by_tag[f"statement {name}"] for name in STATEMENTS if not name.startswith("Stack")},
        "operations": _by_operation(by_tag, OPS),
        "derivative rules of operations": _by_operation(reverse, [name for name in VJP if any(VJP[name])]),
        "derivative rules of statements": {
            cls.__name__: backward[f"statement {cls.__name__}"]
            for cls in REVERSE
            if not cls.__name__.startswith("Stack") and cls not in (Op, Atomic)
        },
        "derivative rules of atomics": {op: backward[f"atomic {op}"] for op in ATOMIC_OPS if atomic_fits(op, f64)},
    }


def _by_operation(tags: Counter[str], names: Iterable[str]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for tag, count in tags.items():
        sums[tag.partition(" ")[0]] += count
    return {name: sums[name] for name in names}


def finding(found: Finding) -> Plain:
    """Return a finding as plain data with texts that a reader understands without knowing this project."""
    key = failed_key(found.judged)
    wrong = [j for j in found.judged if j.verdict == "disagree"]
    return {
        "title": found.title,
        "seed": found.seed,
        "case": found.case,
        "direction": key[0] if key else "",
        "executor": key[1] if key else "",
        "program": definitions(found.program).strip(),
        "differences": [f"{j.executor} against {j.reference}: {j.reason}" for j in wrong],
        "agreed": sorted({j.executor for j in found.judged if j.verdict == "ok" and j.direction == (key or ("",))[0]}),
    }
