"""What backends find of iterations that meet: the same kind at the same place, whichever iterations they name."""

from __future__ import annotations

import pytest
from stackgrad.compiler.errors import NotDifferentiable
from stackgrad.harness.tools.fuzz.marks import refusal_difference

CLAIM = "sg.assume_unique does not hold: iterations {} and {} of this parallel loop both touch {}"
READ = "iteration {} of this parallel loop reads {}, which iteration {} writes (line {}): not independent"


def error(text: str) -> NotDifferentiable:
    return NotDifferentiable(text)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (CLAIM.format(0, 3, "o[2]"), CLAIM.format(0, 4, "o[2]")),
        (CLAIM.format("(0, 1)", "(2, 0)", "o[2, 1]"), CLAIM.format("(1, 1)", "(2, 3)", "o[0, 0]")),
        (READ.format(0, "x[1]", 3, 7), READ.format(1, "x[0]", 2, 7)),
    ],
)
def test_other_iterations_are_no_difference(ours, theirs):
    assert refusal_difference("cuda", error(ours), error(theirs)) == ""


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (CLAIM.format(0, 3, "o[2]"), CLAIM.format(0, 3, "p[2]")),
        (READ.format(0, "x[1]", 3, 7), READ.format(0, "x[1]", 3, 8)),
        (READ.format(0, "x[1]", 3, 7), CLAIM.format(0, 3, "x[1]")),
    ],
)
def test_another_place_or_reason_is_one(ours, theirs):
    assert refusal_difference("cuda", error(ours), error(theirs)).startswith("cuda: ")
    assert refusal_difference("cuda", None, error(theirs)) and refusal_difference("cuda", error(ours), None)
