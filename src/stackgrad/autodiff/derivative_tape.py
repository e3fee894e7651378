"""Run reverse mode for functions that return a derivative, whatever the program stores to gradients.

To a tape, what launches store to `x.grad` is data: the backward pass adds to it. A function that returns a derivative
must return that alone.
"""

from __future__ import annotations

from .gradients import clear_all_gradients
from .tape import Tape


class DerivativeTape(Tape):
    """Represent a tape whose backward pass begins with gradients of 0, so that they become the derivative alone."""

    def _run_backward(self) -> None:
        clear_all_gradients()
        super()._run_backward()
