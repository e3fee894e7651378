"""Describe how executions ended; copy arrays, and compare them bit by bit."""

from __future__ import annotations

import numpy as np

from ....compiler.errors import LocatedError
from ....reference.traps import TRAPS
from ...testing.outcome import Arrays, OkOutcome, Outcome, TrapOutcome, one_line

TRAP_KINDS = frozenset(kind.__name__ for kind in TRAPS)
"""The names of the traps of the language."""


def copies(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return copies of arrays, by name."""
    return {name: array.copy() for name, array in arrays.items()}


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
