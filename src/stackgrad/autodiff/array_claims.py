"""Reserve the arrays of a tape or a forward mode, so that no other thread may differentiate or write them.

Invariant: adjoints and tangents of an array are used by one thread at a time. A write of another thread to an array of
a tape is an error of the tape if a derivative depends on it; it never becomes a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..data.fields import Array
from ..runtime.session import RUNTIME, stamp
from ..runtime.usage_errors import TapeError

if TYPE_CHECKING:
    from ..launch.program import Binding


class ArrayClaim:
    """Reserve arrays for the derivatives of one tape or forward mode until `end` is called.

    Attributes:
        what: The name of the tape or mode in messages.
        clears: True if derivatives that another thread left in an array are set to 0 when the array is reserved.
        threads: The threads of the runtime.
        own: The state of the thread that reserves the arrays.
        arrays: The reserved arrays, as the keys of a dict.
    """

    def __init__(self, what: str, clears: bool) -> None:
        self.what = what
        self.clears = clears
        self.threads = RUNTIME.threads
        self.own = self.threads.begin()
        self.arrays: dict[Array, None] = {}

    def end(self) -> None:
        """Release the reserved arrays, so that other threads may differentiate them again."""
        self.threads.end(self.own)

    def renewed(self) -> ArrayClaim:
        """Reserve the same arrays again, for a later backward pass; return the reservation or raise TapeError."""
        made = ArrayClaim(self.what, False)
        made.clears = self.clears
        try:
            made.take(self.arrays)
        except TapeError:
            made.end()
            raise
        return made

    def meet(self, binding: Binding) -> None:
        """Record which arrays a launch in this thread uses, so that writes to them by other threads are reported."""
        self.own.used.update(found for found in binding.arrays.values() if isinstance(found, Array))

    def use(self, binding: Binding) -> None:
        """Record the arrays of a launch, and reserve those with a gradient. Raise TapeError if one is reserved."""
        self.meet(binding)
        found = (binding.arrays[name] for name in binding.program.gradients)
        self.take(array for array in found if isinstance(array, Array))

    def take(self, arrays: Iterable[Array]) -> None:
        """Reserve arrays for derivatives of this thread. Raise TapeError if another thread has reserved one."""
        for array in arrays:
            if array not in self.arrays:
                is_foreign = self.threads.is_foreign(array)
                if not self.threads.claim(array):
                    reason = f"another thread is taking derivatives of {array.label} already"
                    raise TapeError(reason, "give each thread fields of its own, or let one wait for the other")
                self.arrays[array] = None
                for beside in (array._grad, array._dual) if is_foreign and self.clears else ():
                    if beside is not None and beside.is_placed:
                        beside.put(..., 0)
                        beside.version = stamp()

    def check(self, matters: Callable[[Array], bool]) -> None:
        """Raise TapeError if another thread wrote an array on which derivatives depend, as `matters` decides.

        Args:
            matters: A function that tells whether derivatives depend on an array.
        """
        for array, who in list(self.own.disturbed.items()) if self.own.disturbed else ():
            if matters(array):
                reason = f"{who} in another thread wrote {array.label}, which {self.what} uses"
                raise TapeError(reason, "let the thread wait for the end of the block, or do it in this one")

    def is_of_this_thread(self) -> bool:
        """Return True if the calling thread is the thread that made this reservation."""
        return self.own is RUNTIME.threads.own
