"""What derivatives take for constant: launches and writes in functions of `no_grad`, and launches of such kernels.

Invariant: tapes and forward mode see these launches, as they may destroy what a gradient reads, and record none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .session import RUNTIME, Watcher

CONSTANT = "stackgrad_constant"
"""The attribute of what `no_grad` makes of a function: itself, and the function."""


@contextmanager
def unrecorded(constant: bool) -> Iterator[list[Watcher]]:
    """Launches inside are watched, not recorded; gives the tapes that would have recorded.

    constant: what they and the host write there is constant to the tapes; else the function has its own gradient.
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
    """In forward mode, what launches inside write is constant."""
    mode = RUNTIME.forward
    if mode is None or mode.constant:
        yield
        return
    mode.constant = True
    try:
        yield
    finally:
        mode.constant = False
