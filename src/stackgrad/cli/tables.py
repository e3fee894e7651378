"""Print the progress and the results of `stackgrad check`, by rich if it is installed, else as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from ..harness.testing.compare import SEVERITY, Verdict
from ..harness.testing.report import CheckReport, ReportCell, ReportRow

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 200
"""Number of columns where the output is no terminal; tables are not folded there."""

STYLES: dict[Verdict, str] = {
    "ok": "green",
    "unsupported": "dim",
    "refused": "cyan",
    "poisoned": "yellow",
    "undecided": "yellow",
    "trap": "bold red",
    "disagree": "bold red",
}
"""The style of each verdict."""
NO_RICH = "rich is not installed, so tables are plain text; cure: pip install 'stackgrad[harness]'"

TableText = tuple[list[str], list[list[str]]]


class Display:
    """Print the progress and the reports of `stackgrad check` to a stream, by rich if it is installed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._console: Console | None = None
        if find_spec("rich"):
            from rich.console import Console

            self._console = Console(file=stream, width=None if stream.isatty() else PLAIN_WIDTH, highlight=False)
        else:
            self.line(NO_RICH)

    def line(self, text: str, style: str = "") -> None:
        """Write a text of one or several lines."""
        if self._console is None:
            print(text, file=self.stream)
        else:
            self._console.print(text, style=style or None, markup=False, soft_wrap=True)

    def running(self, name: str) -> None:
        """Print a line that says that a program is about to run."""
        self.line(f"running {name}", "bold")

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[int, int, str], None]]:
        """Yield a function that updates a progress bar; without a terminal the function does nothing."""
        if self._console is None or not self._console.is_terminal:
            yield lambda done, total, text: None
            return
        from rich.progress import Progress

        with Progress(console=self._console, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text or title)

    def report(self, report: CheckReport) -> None:
        """Write the whole report of one program."""
        if report.rows:
            self._table(table_of(report), report)
        for text in notes(report):
            self.line(text)
        self.line(summary(report))
        for text in report.failures:
            self.line(f"FAILED: {text}", "bold red")
        verdict = "passed" if report.passed else "FAILED"
        self.line(f"{verdict}: {report.program}", "bold green" if report.passed else "bold red")

    def _table(self, table: TableText, report: CheckReport) -> None:
        if self._console is None:
            self.line(plain_table(table))
            return
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        heads, lines = table
        made = RichTable(*heads, box=box.SIMPLE_HEAD, title=report.program, title_justify="left")
        for cells in lines:
            made.add_row(*(Text(text, style=style_of(text)) for text in cells))
        self._console.print(made)


def style_of(text: str) -> str:
    """Return the rich style of a table cell, according to the verdict that its text begins with."""
    return next((STYLES[verdict] for verdict in SEVERITY if text.split(" ")[0] == verdict), "")


def table_of(report: CheckReport) -> TableText:
    """Return the column titles and the cells of each row of a report's table."""
    heads = ["kernel", "direction", "verdict", *report.executors, "error/bound", "precisions", "adstacks", "launches"]
    return heads, [_line(row, report.executors) for row in report.rows]


def _line(row: ReportRow, executors: Sequence[str]) -> list[str]:
    cells = [cell_text(row.cells.get(name)) for name in executors]
    bytes_text = f"{row.adstack_bytes} B" if row.adstack_bytes else "-"
    end = [f"{row.error:.2g}", " ".join(row.precisions), bytes_text, str(row.launches)]
    return [row.kernel, row.direction, row.verdict, *cells, *end]


def cell_text(cell: ReportCell | None) -> str:
    """Return the text of a cell: verdict and time of one executor, or a dash if the executor did not run."""
    if cell is None:
        return "-"
    return cell.verdict if cell.seconds is None else f"{cell.verdict} {duration(cell.seconds)}"


def duration(seconds: float) -> str:
    """Return a time in seconds with three digits and a unit: 12.3 us."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def plain_table(table: TableText) -> str:
    """Return a table as plain text with aligned columns."""
    heads, lines = table
    widths = [max(len(line[k]) for line in (heads, *lines)) for k in range(len(heads))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in (heads, *lines))


def notes(report: CheckReport) -> list[str]:
    """Return lines that explain verdicts other than `ok`, adstack memory, and absent backends."""
    found = [] if report.rows else ["it launched no kernel: nothing was judged"]
    for row in report.rows:
        for name, cell in row.cells.items():
            if cell.verdict not in ("ok", "disagree", "trap"):
                found += [f"{row.kernel} ({row.direction}), {name}: {cell.verdict}: {why}" for why in cell.reasons]
        found += [f"{row.kernel} ({row.direction}), adstacks of {text}" for text in row.adstacks]
    return found + [f"backend {name} is absent: {why}" for name, why in report.absent.items()]


def summary(report: CheckReport) -> str:
    """Return a line with the number of comparisons for each verdict."""
    counted = [f"{report.counts[verdict]} {verdict}" for verdict in SEVERITY if report.counts[verdict]]
    total = sum(report.counts.values())
    return f"{total} comparisons: {', '.join(counted) or 'none'}; {report.open_share:.0%} decided nothing"
