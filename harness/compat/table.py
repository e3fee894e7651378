"""Format tables for a terminal and for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

Rows = Sequence[Sequence[str]]


def plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with aligned columns; the last one is not padded."""
    every = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head) - 1)]
    lines = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in every
    )
    return "\n".join(line.rstrip() for line in lines)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown; a bar in a cell is escaped."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def store(file: Path, name: str, title: str, head: Sequence[str], rows: Rows) -> None:
    """Write a table into the named part of a Markdown page, in place of earlier rows about the same subjects.

    The part begins with `<!-- NAME -->` and ends with `<!-- end of NAME -->`; a page without it gets it at its end. A
    subject is the first cell of a row, and rows with an empty first cell belong to the row above.

    Args:
        file: the page; it need not exist.
        name: the name of the part, which marks its beginning and end.
        title: the line above the table.
        head: the titles of the columns.
        rows: the rows to add; they replace rows with the same subject.
    """
    page = file.read_text(encoding="utf-8") if file.exists() else ""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in page:
        page += f"{begin}\n{end}\n"
    before, _, rest = page.partition(begin)
    old, _, after = rest.partition(end)
    subjects = {**by_subject(read(old)), **by_subject(rows)}
    every = [row for subject in subjects.values() for row in subject]
    file.write_text(f"{before}{begin}\n{title}\n\n{markdown(head, every)}\n{end}{after}", encoding="utf-8")


def read(text: str) -> list[list[str]]:
    """Return the rows of the first Markdown table in a text, without its header."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    cells = ([cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:])
    return list(cells)


def by_subject(rows: Rows) -> dict[str, list[Sequence[str]]]:
    """Return the rows of a table by subject, which is the first cell; rows without one belong to the row above."""
    subjects: dict[str, list[Sequence[str]]] = {}
    subject = ""
    for row in rows:
        subject = row[0] or subject
        subjects.setdefault(subject, []).append(row)
    return subjects
