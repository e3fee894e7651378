"""This module tabulates by trip count how many comparisons of results are decided within their error bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

COLUMNS = ("agree", "disagree", "undecided", "poisoned")
"""Outcomes of a case, in the order of the columns."""
_BAR = 30


def histogram(results: Iterable[tuple[int, str]]) -> str:
    """Print and return a table of the outcomes of cases, grouped by trip count in powers of two.

    Args:
        results: (trips, outcome) of each case; the outcome is a state of `judge.Verdict`, or "poisoned".
    """
    buckets: dict[int, Counter[str]] = {}
    for trips, outcome in results:
        buckets.setdefault(int(trips).bit_length(), Counter())[outcome] += 1
    lines = [f"{'trips':>11} {'cases':>6}" + "".join(f"{c:>11}" for c in COLUMNS) + "  decided"]
    for bits, counts in sorted(buckets.items()):
        lines.append(_line(_range(bits), counts))
    if len(buckets) > 1:
        lines.append(_line("all", sum(buckets.values(), Counter())))
    text = "\n".join(lines)
    print(text)
    return text


def _range(bits: int) -> str:
    low, high = 1 << bits >> 1, (1 << bits) - 1
    return str(low) if low == high else f"{low}-{high}"


def _line(label: str, counts: Counter[str]) -> str:
    total = sum(counts.values())
    share = (counts["agree"] + counts["disagree"]) / total
    cells = "".join(f"{counts[c]:>11}" for c in COLUMNS)
    return f"{label:>11} {total:>6}{cells}  {share:>4.0%} {'#' * round(_BAR * share)}"
