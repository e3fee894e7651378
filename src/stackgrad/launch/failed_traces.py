"""Store the errors of failed traces, so that the next call of the same kind raises the same error without tracing.

A program may call a kernel that cannot be compiled, catch the error, and go on. Invariant: a failed trace is tried
again as soon as anything that it read has changed. Its record keeps neither the arguments nor the error alive, only
text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..compiler.errors import LocatedError, Refusals
from ..runtime.guards import guards_of, hold
from .prepared import Reference, reference

if TYPE_CHECKING:
    from ..compiler.frontend.reads import Read
    from ..runtime.guards import Guard

T = TypeVar("T")

_MOST = 64


class _FailedTrace:
    """Represent a failed trace by its error, the argument objects, and guards on what the trace has read."""

    __slots__ = ("refusals", "_owners", "_guards")

    def __init__(self, refusals: Refusals, owners: Sequence[Any], reads: Sequence[Read]) -> None:
        self.refusals = refusals
        self._owners: list[Reference] = [reference(owner) for owner in owners]
        self._guards: tuple[Guard, ...] = guards_of(reads)

    def holds(self, owners: Sequence[Any]) -> bool:
        """Return True if a trace with these arguments would fail in the same way again."""
        is_same = all(ref() is owner for ref, owner in zip(self._owners, owners, strict=True))
        return is_same and hold(self._guards)


class FailedTraces:
    """Store the failed traces of one kernel, by the key of the call."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _FailedTrace] = {}

    def once(self, key: tuple[Any, ...], owners: Sequence[Any], trace: Callable[[list[Read]], T]) -> T:
        """Return the result of `trace`, or raise the error of an earlier trace that would fail in the same way.

        Args:
            key: The key of the call.
            owners: The objects whose identity is part of the key.
            trace: A function that traces, and appends what it reads of Python objects to a list.
        """
        reads: list[Read] = []
        known = self._known.pop(key, None)
        if known is not None and known.holds(owners):
            self._known[key] = known
            return known.refusals.once(key, lambda: trace(reads))
        refusals = Refusals()
        try:
            return refusals.once(key, lambda: trace(reads))
        except LocatedError:
            while len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = _FailedTrace(refusals, owners, reads)
            raise
