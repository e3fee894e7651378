"""This module defines the interface of a GPU's work queue: waits, and dropped memory that launches may still use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ..base import DeviceCounters
from ..codegen.prints import PrintBuffer

Dropped = tuple[Callable[[], None], int]
"""The type of a dropped object: a function that frees it, and its bytes."""

_MOST_DROPPED, _MOST_DROPPED_BYTES = 512, 64 << 20


class DeviceQueue(ABC):
    """Represent the work submitted to a GPU, and the dropped memory that is freed once this work is over.

    Invariant: what is dropped while launches may use it is given back at a later wait, never earlier.

    Attributes:
        counters: Numbers of waits and of copies to the host.
    """

    counters: DeviceCounters
    _trash: list[Dropped]

    @property
    @abstractmethod
    def is_pending(self) -> bool:
        """Return True if launches may be in flight."""

    @property
    @abstractmethod
    def prints(self) -> PrintBuffer:
        """Return the buffer that kernels print to, made when the first kernel that prints is compiled."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until submitted work is done; an error that the device recorded stays for `wait` to raise."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for everything in flight; raise the device's error if there is one."""

    @abstractmethod
    def tidy(self) -> None:
        """Free dropped memory if no wait is needed for that; if much memory was dropped, wait first."""

    def settle(self) -> None:
        """Wait for all work that may be in flight, even if another thread is already waiting for the work."""
        if self.is_pending:
            self.wait()

    def drop(self, give_back: Callable[[], None], size: int = 0) -> None:
        """Call `give_back`, which frees memory, as soon as no launch uses the memory any longer.

        Args:
            give_back: Frees the memory.
            size: Bytes of the memory.
        """
        self._trash.append((give_back, size))

    @property
    def _has_much_trash(self) -> bool:
        """Return True if so much memory was dropped that waiting to free the memory is worthwhile."""
        trash = self._trash
        return len(trash) > _MOST_DROPPED or sum(size for _, size in trash) > _MOST_DROPPED_BYTES
