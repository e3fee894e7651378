"""Test that index checks are dropped exactly for positions that are proved to be inside."""

from __future__ import annotations

import pytest
from ir_test_support.goldens import check, check_unchanged
from stackgrad.compiler.passes.drop_checks import drop_checks

LENGTH = "%8: i32 = const 0; %9: i32 = const 3; "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('%10: i32 = within %8, %9, ""; store m[%10], %8', "store m[%8], %8"),
        (
            'for %10: i32 in %8 .. %9 { %11: i32 = within %10, %9, ""; store m[%11], %8 }',
            "for %10: i32 in %8 .. %9 { store m[%10], %8 }",
        ),
        (
            '%10: i32 = mod %0, %9; %11: i32 = within %10, %9, ""; store m[%11], %8',
            "%10: i32 = mod %0, %9; store m[%10], %8",
        ),
        (
            '%10: u1 = cmp_ge %0, %8; if %10 { %11: u1 = cmp_lt %0, %9; if %11 { %12: i32 = within %0, %9, ""; '
            "store m[%12], %8 } }",
            "%10: u1 = cmp_ge %0, %8; if %10 { %11: u1 = cmp_lt %0, %9; if %11 { store m[%0], %8 } }",
        ),
    ],
)
def test_what_is_proved(before: str, after: str) -> None:
    check(drop_checks, LENGTH + before, LENGTH + after)


@pytest.mark.parametrize(
    "text",
    [
        '%10: i32 = within %0, %9, ""; store m[%10], %8',
        '%10: i32 = within %9, %9, ""; store m[%10], %8',
        'for %10: i32 in %8 .. %0 { %11: i32 = within %10, %9, ""; store m[%11], %8 }',
        '%10: i32 = within %0, %9, "one"; %11: i32 = within %0, %9, "two"; store m[%10], %11',
    ],
)
def test_what_is_not(text: str) -> None:
    """Not by another comparison either, of which what follows may have no need."""
    check_unchanged(drop_checks, LENGTH + text)
