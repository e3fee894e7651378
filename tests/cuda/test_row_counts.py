"""What is written about rows of different lengths is what is counted."""

from __future__ import annotations

from pathlib import Path

import row_counts

PAGE = Path(__file__).parents[2] / "docs" / "decisions" / "ragged_rows_on_gpus.md"


def test_the_page_says_what_is_counted() -> None:
    text = PAGE.read_text()
    for line in row_counts.table():
        assert line in text, line


def test_sorted_rows_take_no_more_than_is_pushed() -> None:
    """But for the rows of the first warp, whose lanes need not be alike."""
    for name, depths in row_counts.DISTRIBUTIONS.items():
        found = row_counts.counted(row_counts._shuffled(depths()))
        first = 32 * int(depths().max()) * row_counts.SLOT
        assert found.sorted <= min(found.content + first, found.ragged), name
        assert found.uniform <= max(1 << 20, 32 * found.content) + 128 * first // 32, name
        assert found.sorted_steps <= found.steps, name
