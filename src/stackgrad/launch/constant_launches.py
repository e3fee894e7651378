"""Exclude launches from derivatives: those inside functions marked with `no_grad`, and those of constant kernels.

Invariant: tapes and forward mode are notified of these launches, which may overwrite values that a gradient reads, but
do not record them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..runtime.session import RUNTIME
from ..runtime.thread_state import Watcher

CONSTANT = "stackgrad_constant"
"""Name of an attribute of the function that `no_grad` returns; its value is (this function, the wrapped function)."""


@contextmanager
def without_recording(constant: bool) -> Iterator[list[Watcher]]:
    """Stop tapes from recording launches in the `with` block; if `constant`, the values they write have no derivative.

    Args:
        constant: True if the values that the block writes are constant to the tapes, False if the block has a gradient
            of its own.
    """
    tapes = [tape for tape in RUNTIME.tapes if tape.recording]
    if not tapes or not RUNTIME.tapes[-1].recording:  # inside another such function, or while a tape runs backward
        yield []
        return
    for tape in tapes:
        tape.before_custom()
    for tape in tapes:
        tape.recording, tape.constant = False, constant
    try:
        yield tapes
    finally:
        for tape in tapes:
            tape.recording = tape.constant = True


@contextmanager
def without_tangents() -> Iterator[None]:
    """Make forward mode treat values that are written in the `with` block as constants."""
    mode = RUNTIME.forward
    if mode is None or mode.constant:
        yield
        return
    mode.constant = True
    try:
        yield
    finally:
        mode.constant = False
