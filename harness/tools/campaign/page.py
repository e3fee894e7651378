"""This module writes the report of a campaign as one HTML page without scripts, for large and small screens.

The page loads nothing. Wide tables scroll inside their own box, so the page never scrolls sideways. Markup is in the
templates beside this module, which escape everything that they are given; this module computes what they show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..page_templates import environment_of
from .plain_results import Plain

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> Environment:
    """Return the Jinja2 environment with the HTML templates of the page.

    Raises:
        MissingTemplates: Jinja2 is not installed.
    """
    return environment_of(__package__)


def page(plain: Plain, title: str = "Fuzzing campaign") -> str:
    """Return a report as HTML, with `title` as the title of the page.

    Raises:
        MissingTemplates: Jinja2 is not installed.
    """
    columns = sorted({executor for row in plain["matrix"].values() for executor in row})
    verdicts = {verdict for *_, counts in plain["executors"] for verdict in counts}
    text = (
        environment()
        .get_template("report.html")
        .render(
            title=title,
            planted=plain["planted"],
            cards=[_card(name, value) for name, value in plain["summary"].items()],
            findings=[_finding(found) for found in plain["findings"]],
            verdicts=sorted(verdicts, key=lambda verdict: (verdict != "ok", verdict)),
            executors=[
                (f"{direction} {executor}", {verdict: counts.get(verdict, 0) for verdict in verdicts})
                for direction, executor, counts in plain["executors"]
            ],
            columns=columns,
            matrix=[(tag, [row.get(name) for name in columns]) for tag, row in plain["matrix"].items()],
            outcomes=list(_bars(plain["outcomes"].items())),
            histogram=list(_histogram(plain["trips"])),
            trips=[row for row in plain["trips"] if row[1]],
            rates=_rates(plain["rates"]),
            coverage=[_coverage(name, counts) for name, counts in plain["coverage"].items()],
        )
    )
    return text + "\n"


def _card(name: str, value: Any) -> tuple[str, str, bool]:
    """Return the label of a number in the summary, the number as text, and True if the page highlights it."""
    shown = f"{value:.1%}" if name == "decided nothing" else f"{value:,}" if isinstance(value, int) else f"{value}"
    return name, shown, name in ("disagreements", "crashes") and bool(value)


def _bars(rows: Iterable[tuple[str, int]]) -> Iterator[Plain]:
    """Yield the horizontal bars of a chart, the longest first."""
    kept = sorted(rows, key=lambda row: -row[1])
    most, every = max((count for _, count in kept), default=1), sum(count for _, count in kept) or 1
    for place, (name, count) in enumerate(kept):
        width = 190 * count / most
        end, share = f"{100 + width:.1f}", count / every
        yield {"y": 18 * place, "name": name, "count": count, "width": f"{width:.1f}", "end": end, "share": share}


def _histogram(rows: list[list[int]]) -> Iterator[Plain]:
    """Yield one bar for each trip count; in a bar, undecided cases follow decided cases."""
    kept = [row for row in rows if row[1]]
    most = max((cases for _, cases, _ in kept), default=1)
    for place, (low, cases, decided) in enumerate(kept):
        good, bad = 230 * decided / most, 230 * (cases - decided) / most
        yield {
            "y": 18 * place,
            "low": low,
            "decided": decided,
            "undecided": cases - decided,
            "good": f"{good:.1f}",
            "bad": f"{bad:.1f}",
            "middle": f"{75 + good:.1f}",
            "end": f"{80 + good + bad:.1f}",
        }


def _rates(rows: list[list[float]]) -> Plain | None:
    """Return the lines of a chart over time: cases per second, and the share of undecided cases; None for no data."""
    if len(rows) < 2:
        return None
    ordered = sorted(rows)
    begin, end = ordered[0][0], ordered[-1][0]
    top = max(row[2] for row in ordered) or 1
    span = (end - begin) or 1
    return {
        "speed": _points(((row[0] - begin) / span, row[2] / top) for row in ordered),
        "undecided": _points(((row[0] - begin) / span, row[3]) for row in ordered),
        "top": f"{top:.3g}",
        "minutes": f"{span / 60:.0f}",
    }


def _points(points: Iterable[tuple[float, float]]) -> str:
    """Return SVG chart coordinates, as text, for points of the unit square."""
    return " ".join(f"{35 + 355 * x:.1f},{105 - 90 * y:.1f}" for x, y in points)


def _coverage(name: str, counts: dict[str, int]) -> tuple[str, int, list[tuple[str, int]]]:
    """Return the name of a group of items, the number of items that occurred, and all items by rising count."""
    return name, sum(bool(count) for count in counts.values()), sorted(counts.items(), key=lambda row: row[1])


def _finding(found: Plain) -> Plain:
    """Return the data that the page template needs to show one finding."""
    results = found.get("results", {})
    names = dict.fromkeys(name for of_executor in results.values() for name in of_executor)
    return {
        "title": found["title"][:200],
        "case": found["case"],
        "agreed": ", ".join(found["agreed"]) or "none",
        "program": found["program"],
        "differences": "\n".join(found["differences"]) or found["title"],
        "results": [
            (f"{name} {executor}".strip(), results[executor][name])
            for name in names
            for executor in results
            if name in results[executor]
        ],
        "source": found.get("source", ""),
    }
