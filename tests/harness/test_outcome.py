"""Outcomes: what an exception means."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.compiler.errors import NotDifferentiable, OutOfBounds, Span
from stackgrad.compiler.errors import Unsupported as UnsupportedError
from stackgrad.harness.testing.outcome import (
    OkOutcome,
    Outcome,
    RefusedOutcome,
    TrapOutcome,
    UnsupportedOutcome,
    attempt,
    one_line,
)

_SPAN = Span("p.py", 3, 4, 5, "    x = y")


def _raising(error: Exception) -> Outcome:
    def run() -> dict[str, np.ndarray]:
        raise error

    return attempt(run)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OutOfBounds("index 3"), TrapOutcome("OutOfBounds", "index 3")),
        (NotDifferentiable("no", "cure", _SPAN), RefusedOutcome("p.py:3:5: no")),
        (UnsupportedError("not yet", "cure", _SPAN), UnsupportedOutcome("p.py:3:5: not yet")),
        (NotDifferentiable("no", "cure"), RefusedOutcome("no")),
        (KeyError("x"), TrapOutcome("KeyError", "'x'")),
    ],
)
def test_exceptions_become_outcomes(error: Exception, outcome: Outcome) -> None:
    assert _raising(error) == outcome


def test_results_are_kept() -> None:
    arrays = {"x": np.ones(2)}
    outcome = attempt(lambda: arrays)
    assert isinstance(outcome, OkOutcome) and outcome.arrays is arrays


def test_interrupts_pass() -> None:
    def run() -> dict[str, np.ndarray]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(run)


def test_messages_without_text_have_a_line() -> None:
    assert one_line(ValueError()) == "ValueError"
