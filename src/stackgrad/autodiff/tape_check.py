"""Implement `Tape(..., grad_check=[x])`: compare the gradient of the block with finite differences of its launches.

The block itself cannot run again, so its launches, its calls of grad_replaced and no_grad functions and the host's
writes are repeated in order. A write by the host is recorded as its result: the contents of the array before the next
launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.fields import Array
from ..runtime.session import stamp
from ..runtime.usage_errors import TapeError
from .field_snapshot import FieldsSnapshot
from .numeric import GradCheckError, Tolerance, checked_arrays, compare

if TYPE_CHECKING:
    from .tape import Tape


class TapeCheck:
    """Compare the gradient that one tape computes with finite differences of its launches.

    Attributes:
        tape: The tape.
        wanted: The arrays to check.
        before: The state at the beginning of the block.
    """

    def __init__(self, tape: Tape, params: Sequence[Any]) -> None:
        self.tape = tape
        self.wanted = checked_arrays(params)
        self.before: FieldsSnapshot
        self._written: dict[Array, None] = {}

    def begin(self) -> None:
        """Record the state from which the block starts: kernels may read gradients, which the tape has cleared."""
        self.before = FieldsSnapshot()

    def host_write(self, array: Array) -> None:
        """Record that the host is about to write an array. Raise TapeError if the array has a gradient.

        The tape computes the derivative with respect to the values that the host writes. A check that repeats the write
        would overwrite the elements that it varies, and find that nothing depends on them.
        """
        if array.needs_grad:
            raise TapeError(
                f"the host writes {array.label}, which has a gradient, inside a tape with grad_check",
                "write it before the tape, or by a kernel",
            )
        self._written[array] = None

    def before_call(self) -> list[Callable[[], Any]]:
        """Return functions that repeat the host's writes since the previous call of this method."""
        made = [_rewrite(array, array.memory.copy()) for array in self._written]
        self._written.clear()
        return made

    def compare(self) -> None:
        """Compare the gradient with finite differences, and restore all fields. Raise GradCheckError if they differ."""
        calls = self.tape.launches() + self.before_call()
        after = FieldsSnapshot()
        gradients = {array: array.grad.memory.copy() for array in self.wanted}

        def run() -> None:
            for call in calls:
                call()

        try:
            report = compare(self.tape.terms, gradients, run, self.before, Tolerance())
        finally:
            after.restore(exactly=True)
        if not report.ok:
            raise GradCheckError(report)


def _rewrite(array: Array, content: np.ndarray) -> Callable[[], None]:
    """Return a function that writes the given values to an array."""

    def write() -> None:
        array.memory[...] = content
        array.version = stamp()

    return write
