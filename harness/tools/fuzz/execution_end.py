"""Describe how executions ended, and compare arrays bit by bit."""

from __future__ import annotations

import numpy as np

from ....compiler.errors import LocatedError
from ...testing.outcome import OkOutcome, Outcome, TrapOutcome, one_line


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two arrays have the same bits, where all NaNs count as equal."""
    if a.dtype.kind == "f":
        same = np.array_equal(a, b, equal_nan=True)
        return same and bool(np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)))
    return bool(np.array_equal(a, b))


def describe_end(outcome: Outcome) -> str:
    """Return a text that says how an execution ended: normally, with a trap, or without a result."""
    if isinstance(outcome, OkOutcome):
        return "ran to its end"
    if isinstance(outcome, TrapOutcome):
        return f"ended with {outcome.kind}: {outcome.message.splitlines()[0] if outcome.message else ''}"
    return f"{type(outcome).__name__.removesuffix('Outcome').lower()}: {outcome.reason}"


def named_error(error: BaseException) -> str:
    """Return the class and the message of an exception as one line."""
    text = one_line(error) if isinstance(error, LocatedError) else str(error)[:300]
    return f"{type(error).__name__}: {text}"
