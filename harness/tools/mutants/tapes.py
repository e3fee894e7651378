"""This module contains mutants of tapes: launches of other threads, and copies that are missing or made too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....autodiff.tape_state import StateLog
from ....data.fields import array
from ....launch.saved_boxes import BeforeContent, SavedBox
from ....runtime.thread_state import ThreadState, ThreadStates
from .planting import Mutant, Plant, patched

if TYPE_CHECKING:
    from ....launch.directions import BoundGradient


def _shared() -> Plant:
    everyone = ThreadState()
    return patched(ThreadStates, "own", property(lambda self: everyone))


class _PresentContent(SavedBox):
    """Represent a mutant of saved contents that returns the present contents of the array instead."""

    def restored(self) -> np.ndarray:
        return self.array.copy()


def _late() -> Plant:
    right = StateLog.unseen_content

    def wrong(self: StateLog, backward: BoundGradient, name: str) -> BeforeContent:
        made = right(self, backward, name)
        return BeforeContent(_PresentContent(made.primal.array, None, made.primal.content), made.tangents)

    return patched(StateLog, "unseen_content", wrong)


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
    Mutant(
        "gradient-read-late",
        "A gradient that a kernel reads is copied when the tape runs backward, not when the kernel is launched.",
        "a tape gives a gradient what its launch found in x.grad",
        _late,
        on="cpu",
    ),
)
