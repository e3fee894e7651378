"""Format tables for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence


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
