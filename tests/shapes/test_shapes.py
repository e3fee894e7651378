"""Every shape of the table, on every executor. One test a row; docs/shapes.md is made of the same table."""

from __future__ import annotations

import pytest
import shape_rows  # noqa: F401 - fills the table
from shape_judge import (
    expect,
    judge_by_hand,
    judge_executors,
    judge_policies,
    judge_refusal,
    judge_refusal_by_hand,
    judge_tape,
)
from shape_table import SHAPES, Refused


def _named(*hows: str) -> list[str]:
    return [s.name for s in SHAPES.values() if (s.how if isinstance(s.how, str) else "refused") in hows]


@pytest.mark.rotating
@pytest.mark.parametrize("name", _named("hand", "tape"))
def test_gradient(name: str) -> None:
    shape = SHAPES[name]
    launches = judge_executors(shape)
    expected = expect(shape, launches)
    judge_policies(launches, expected)
    judge_tape(shape, launches, expected, "reference")
    if shape.how == "hand":
        judge_by_hand(shape, expected)
    else:
        judge_refusal_by_hand(shape)
        judge_tape(shape, launches, expected, "cpu")


@pytest.mark.parametrize("name", _named("refused"))
def test_refused(name: str) -> None:
    shape = SHAPES[name]
    assert isinstance(shape.how, Refused)
    judge_refusal(shape)
