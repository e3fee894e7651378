"""A test of a table calls its function with every row and tells of all that fail."""

from __future__ import annotations

import pytest
from table_rows import each_row


def test_every_row_is_executed_and_every_failure_reported() -> None:
    seen = []

    @each_row("a", [1, 2, 3])
    @each_row("b, c", [(10, 20), (30, 40)])
    def one(a: int, b: int, c: int) -> None:
        seen.append((a, b, c))
        assert (a, b) not in ((1, 10), (3, 30)), "is wrong"

    with pytest.raises(AssertionError, match="(?s)2 of 3 rows of one:.*a=1.*b=10, c=20.*is wrong.*a=3.*b=30, c=40"):
        one()
    assert seen == [(a, b, c) for a in (1, 2, 3) for b, c in ((10, 20), (30, 40))]


def test_rows_that_hold_are_silent() -> None:
    @each_row("a", [1, 2])
    def one(a: int) -> None:
        assert a

    assert one.__name__ == "one"
    one()
