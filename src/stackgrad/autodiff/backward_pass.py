"""Save the primals that gradient functions overwrite by launches and host writes while a tape runs backward.

Invariant: when the pass ends, every primal is what it was when it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..data.fields import Array
from ..launch.copying import launch_copy
from ..runtime.usage_errors import TapeError

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..launch.program import Binding
    from .tape_state import StateLog


class BackwardPass:
    """Observe a tape that runs backward, and save the primals that gradient functions overwrite."""

    recording = constant = False
    copy = staticmethod(launch_copy)

    def __init__(self, log: StateLog) -> None:
        self._log = log

    def admit_inner(self) -> None:
        """Raise TapeError always, because a tape inside a backward pass would clear the adjoints being computed."""
        raise TapeError(
            "a tape cannot be entered while another one runs backward", "use kernel.grad() in gradient functions"
        )

    def instead(self, binding: Binding, scalars: Scalars) -> None:
        """Return None, which means that the requested launch is made and not replaced by another one."""

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Save the primals that a launch is about to overwrite."""
        for array in binding.written:
            self._log.disturb(array)

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Do nothing after a launch, because a tape that runs backward records nothing."""

    def launch_failed(self, binding: Binding, scalars: Scalars) -> None:
        """Do nothing after a failed launch, because a tape that runs backward records nothing."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """Save the primal that the host is about to overwrite."""
        self._log.disturb(array)

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Return True, so that no warning is issued: gradient functions may read any contents."""
        return True

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Return True, so that no warning is issued: gradient functions may read the result of any launch."""
        return True

    def before_custom(self) -> None:
        """Do nothing before a function with a custom gradient, because a tape that runs backward records nothing."""

    def add_custom(self, gradient: Callable[[], Any] | None, again: Callable[[], Any]) -> None:
        """Do nothing after a function with a custom gradient, because a tape that runs backward records nothing."""
