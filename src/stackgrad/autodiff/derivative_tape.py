"""Run reverse mode for functions that return a derivative, such as `hvp`, even if the program stores to gradients.

A tape treats the values that launches store to `x.grad` as data, to which its backward pass adds. A function that
returns a derivative must return the derivative alone.
"""

from __future__ import annotations

from .gradients import clear_all_gradients
from .tape import Tape


class DerivativeTape(Tape):
    """Represent a tape that sets all gradients to 0 before its backward pass, so that they end as pure derivatives."""

    def _run_backward(self) -> None:
        clear_all_gradients()
        super()._run_backward()
