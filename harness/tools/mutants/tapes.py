"""This module contains mutants of tapes: recorded launches of other threads, and missing copies before host writes."""

from __future__ import annotations

from ....data.fields import array
from ....runtime.thread_state import ThreadState, ThreadStates
from .planting import Mutant, Plant, patched


def _shared() -> Plant:
    everyone = ThreadState()
    return patched(ThreadStates, "own", property(lambda self: everyone))


MUTANTS = (
    Mutant(
        "tapes-of-all-threads",
        "Tapes, and what they use, are those of all threads together.",
        "what is recorded belongs to the thread that launches",
        _shared,
        on="cpu",
    ),
    Mutant(
        "copy-without-adjoint",
        "A copy from field to field is a write by the host, of constants.",
        "a copy is an operation with a derivative",
        lambda: patched(array, "copy_if_watched", lambda *args: False),
        on="cpu",
    ),
)
