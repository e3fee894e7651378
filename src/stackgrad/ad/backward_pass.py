"""What happens while a tape runs backward: nothing is recorded, and primals that gradient functions write are put back.

Invariant: when the pass ends, every primal is what it was when it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..copying import launch_copy
from ..fields import Array
from ..usage import TapeError

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..program import Binding
    from ..tape_state import StateLog


class BackwardPass:
    """Watches while a tape runs backward: gradient functions write primals, which are put back later."""

    recording = constant = False
    copy = staticmethod(launch_copy)

    def __init__(self, log: StateLog) -> None:
        self._log = log

    def admit_inner(self) -> None:
        """Refuse: a tape would clear the adjoints under way."""
        raise TapeError(
            "a tape cannot be entered while another one runs backward", "use kernel.grad() in gradient functions"
        )

    def instead(self, binding: Binding, scalars: Scalars) -> None:
        """Gradient functions launch what they say."""

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Keep the primals that the launch will overwrite."""
        for array in binding.written:
            self._log.disturb(array)

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Nothing is recorded."""

    def launch_failed(self, binding: Binding, scalars: Scalars) -> None:
        """Nothing is recorded."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """Keep the primal that the host will overwrite."""
        self._log.disturb(array)

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Gradient functions read what they want."""
        return True

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Gradient functions read what they want."""
        return True

    def before_custom(self) -> None:
        """Nothing is recorded."""

    def add_custom(self, gradient: Callable[[], Any] | None, again: Callable[[], Any]) -> None:
        """Nothing is recorded."""
