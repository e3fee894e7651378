"""This module writes the report of a campaign as one HTML page without scripts, for large and small screens.

The page loads nothing. Wide tables scroll inside their own box, so the page never scrolls sideways. Content of a
campaign is text and never markup: numbers are written as numbers, and everything else is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .plain import Plain

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2a7d4f; --bad: #c0392b; --dim: #888; }
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 72rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .7rem; }
.card b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); } .none { color: var(--dim); }
.names { display: flex; flex-wrap: wrap; gap: .3rem; padding: 0; list-style: none; font-size: .8rem; }
.names li { border: 1px solid var(--line); border-radius: .3rem; padding: 0 .35rem; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; padding: .6rem; font-size: .8rem; }
svg { width: 100%; max-width: 40rem; height: auto; display: block; } svg text { font-size: 11px; fill: currentColor; }
"""


def page(plain: Plain, title: str = "Fuzzing campaign") -> str:
    """Return a report as HTML, with `title` as the title of the page."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        _planted(plain["planted"]),
        _cards(plain["summary"]),
        "<h2>Findings</h2>",
        _findings(plain["findings"]),
        "<h2>Executors</h2>",
        _executors(plain["executors"]),
        "<h2>Executors by feature</h2>",
        _matrix(plain["matrix"]),
        "<h2>Outcomes</h2>",
        _bars(plain["outcomes"].items()),
        "<h2>Decided and undecided, by trips of loops</h2>",
        _histogram(plain["trips"]),
        _trips(plain["trips"]),
        "<h2>Rate</h2>",
        _rates(plain["rates"]),
        *_coverage(plain["coverage"]),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    )
    return head + "\n".join(parts) + "</body></html>\n"


def _cards(summary: Plain) -> str:
    cards = []
    for name, value in summary.items():
        bad = ' class="bad"' if name in ("disagreements", "crashes") and value else ""
        shown = f"{value:.1%}" if name == "decided nothing" else f"{value:,}" if isinstance(value, int) else f"{value}"
        cards.append(f'<div class="card"><b{bad}>{escape(shown)}</b>{escape(name)}</div>')
    return f'<div class="cards">{"".join(cards)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in a box that scrolls; cells are HTML."""
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _executors(rows: list[list[Any]]) -> str:
    verdicts = sorted({verdict for *_, counts in rows for verdict in counts}, key=lambda v: (v != "ok", v))
    body = []
    for direction, executor, counts in rows:
        cells = [_count(counts.get(v, 0), v == "disagree") for v in verdicts]
        body.append([escape(f"{direction} {executor}"), *cells])
    return table(["", *verdicts], body)


def _count(number: int, is_bad: bool = False) -> str:
    if not number:
        return '<span class="none">·</span>'
    return f'<span class="bad">{number:,}</span>' if is_bad else f"{number:,}"


def _matrix(rows: Plain) -> str:
    names = sorted({executor for row in rows.values() for executor in row})
    body = [[escape(tag), *(_cell(row.get(name)) for name in names)] for tag, row in rows.items()]
    return table(["compared (wrong)", *names], body)


def _cell(cell: list[int] | None) -> str:
    if cell is None:
        return '<span class="none">·</span>'
    return f'{cell[0]:,} <span class="bad">({cell[1]:,})</span>' if cell[1] else f"{cell[0]:,}"


def _bars(rows: Iterable[tuple[str, int]]) -> str:
    """Return a chart with one horizontal bar for each row."""
    kept = sorted(rows, key=lambda row: -row[1])
    most, every = max((count for _, count in kept), default=1), sum(count for _, count in kept) or 1
    parts = [f'<svg viewBox="0 0 400 {18 * len(kept)}" role="img">']
    for place, (name, count) in enumerate(kept):
        y, width = 18 * place, 190 * count / most
        parts.append(f'<rect x="95" y="{y + 3}" width="{width:.1f}" height="12" fill="#4a86c5"/>')
        parts.append(f'<text x="90" y="{y + 13}" text-anchor="end">{escape(str(name))}</text>')
        parts.append(f'<text x="{100 + width:.1f}" y="{y + 13}">{count:,} ({count / every:.1%})</text>')
    return "".join([*parts, "</svg>"])


def _histogram(rows: list[list[int]]) -> str:
    """Return a chart with one bar for each number of trips; undecided cases follow decided cases in a bar."""
    kept = [row for row in rows if row[1]]
    most = max((cases for _, cases, _ in kept), default=1)
    parts = [f'<svg viewBox="0 0 400 {18 * len(kept) + 18}" role="img">']
    for place, (low, cases, decided) in enumerate(kept):
        y, good, bad = 18 * place, 230 * decided / most, 230 * (cases - decided) / most
        parts.append(f'<rect x="75" y="{y + 3}" width="{good:.1f}" height="12" fill="#2a7d4f"/>')
        parts.append(f'<rect x="{75 + good:.1f}" y="{y + 3}" width="{bad:.1f}" height="12" fill="#c9a227"/>')
        parts.append(f'<text x="70" y="{y + 13}" text-anchor="end">{low:,} or more</text>')
        parts.append(f'<text x="{80 + good + bad:.1f}" y="{y + 13}">{decided:,} + {cases - decided:,}</text>')
    parts.append(f'<text x="75" y="{18 * len(kept) + 12}">green: decided, yellow: undecided</text>')
    return "".join([*parts, "</svg>"])


def _trips(rows: list[list[int]]) -> str:
    body = [[f"{low:,} or more", f"{n:,}", f"{decided:,}", f"{decided / n:.0%}"] for low, n, decided in rows if n]
    return table(["trips", "cases", "decided", "share"], body)


def _rates(rows: list[list[float]]) -> str:
    """Return a line chart of cases per second and of the share of undecided cases, unit by unit in order of time."""
    if len(rows) < 2:
        return '<p class="none">One unit.</p>'
    ordered = sorted(rows)
    begin, end = ordered[0][0], ordered[-1][0]
    top = max(row[2] for row in ordered) or 1
    span = (end - begin) or 1
    lines = [
        _line([((row[0] - begin) / span, row[2] / top) for row in ordered], "#4a86c5"),
        _line([((row[0] - begin) / span, row[3]) for row in ordered], "#c9a227"),
    ]
    return (
        '<svg viewBox="0 0 400 140" role="img"><line x1="35" y1="105" x2="390" y2="105" stroke="#8884"/>'
        f'{"".join(lines)}<text x="30" y="18" text-anchor="end">{top:.3g}</text>'
        '<text x="30" y="108" text-anchor="end">0</text>'
        f'<text x="390" y="121" text-anchor="end">{span / 60:.0f} min</text>'
        '<text x="35" y="136">blue: cases a second of a unit; yellow: share that decided nothing, of 1</text></svg>'
    )


def _line(points: list[tuple[float, float]], color: str) -> str:
    """Return a line through points of the unit square."""
    text = " ".join(f"{35 + 355 * x:.1f},{105 - 90 * y:.1f}" for x, y in points)
    return f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def _planted(name: str) -> str:
    return f'<p class="bad">A mistake is planted in the compiler of this campaign: {escape(name)}.</p>' if name else ""


def _coverage(groups: Plain) -> list[str]:
    parts = []
    for name, counts in groups.items():
        missing = [item for item, count in counts.items() if not count]
        parts.append(f"<h2>Coverage of {escape(name)}: {len(counts) - len(missing)} of {len(counts)}</h2>")
        items = [
            f'<li class="{"good" if count else "bad"}">{escape(item)} {f"{count:,}" if count else "never"}</li>'
            for item, count in sorted(counts.items(), key=lambda row: row[1])
        ]
        parts.append(f'<ul class="names">{"".join(items)}</ul>')
    return parts


def _findings(findings: list[Plain]) -> str:
    if not findings:
        return '<p class="good">None.</p>'
    return "".join(map(_finding, findings))


def _finding(found: Plain) -> str:
    differences = "\n".join(found["differences"]) or found["title"]
    agreed = ", ".join(found["agreed"]) or "none"
    return (
        f'<h3 class="bad">{escape(found["title"][:200])}</h3>'
        f"<p>{escape(str(found['case']))}; agreed: {escape(agreed)}</p>"
        f"<pre>{escape(found['program'])}</pre><pre>{escape(differences)}</pre>"
        f"{_results(found.get('results', {}))}{_source(found.get('source', ''))}"
    )


def _results(results: Plain) -> str:
    """Return a table of the results of each executor, array by array."""
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    rows = [
        [escape(f"{name} {executor}".strip()), f"<code>{escape(results[executor][name])}</code>"]
        for name in names
        for executor in results
        if name in results[executor]
    ]
    return table(["array, executor", "result"], rows) if rows else ""


def _source(text: str) -> str:
    if not text:
        return ""
    head = "to run it: save as case.py, then <code>python case.py cpu</code>"
    return f"<details><summary>{head}</summary><pre>{escape(text)}</pre></details>"
