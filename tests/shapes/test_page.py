"""docs/shapes.md says what the table of shapes says, and the table covers what it must."""

from __future__ import annotations

from collections import Counter

import page
from shape_table import SHAPES, Refused


def test_the_page_is_what_the_table_makes() -> None:
    found = page.PAGE.read_text(encoding="utf-8")
    assert found == page.text(), "docs/shapes.md is stale: run python tests/shapes/page.py"


def test_there_are_many_shapes_of_each_group() -> None:
    counts = Counter(shape.group for shape in SHAPES.values())
    assert len(SHAPES) >= 150 and min(counts.values()) >= 40


def test_few_shapes_are_refused() -> None:
    """All others have a gradient: what is refused has no order of iterations that could be reversed."""
    refused = [shape.name for shape in SHAPES.values() if isinstance(shape.how, Refused)]
    assert 0 < len(refused) <= 10, refused


def test_descriptions_are_told_apart() -> None:
    assert max(Counter(shape.what for shape in SHAPES.values()).values()) == 1
    assert all("|" not in page.outcome(shape) + shape.what for shape in SHAPES.values())
