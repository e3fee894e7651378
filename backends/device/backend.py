"""This module defines what GPU backends share besides kernels: host access to arrays, waits, and heap reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..base import SLABS, DeviceCounters
from .queue import DeviceQueue


class HostAccess(Protocol):
    """Define how the host accesses arrays after all launches; each method raises the device's error if any."""

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return the element of an array at the indices `place` as a Python number."""

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in ordinary host memory."""

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in memory that host and device share."""

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`."""

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""

    def share(self, array: np.ndarray) -> None:
        """Make later launches on an array end before their calls return, because foreign code uses the array too."""


class ReportedHeap(Protocol):
    """Define the interface by which a device's adstack heap reports its size and its limit."""

    def most_bytes(self) -> tuple[int, str]:
        """Return the most bytes that all slabs together can have, and a text that names what sets this limit."""

    def report(self) -> dict[str, dict[str, int]]:
        """Return {"real": {"current": bytes, "peak": bytes}, ...}, with the peak since the last reset."""


class OpenDevice(Protocol):
    """Define the interface of an open device: its work queue, its adstack heap, and host access to its arrays."""

    @property
    def queue(self) -> DeviceQueue:
        """Return the queue that tracks the work submitted to the device."""

    @property
    def heap(self) -> ReportedHeap:
        """Return the adstack heap of the device."""

    @property
    def access(self) -> HostAccess:
        """Return the object through which the host reads and writes arrays of the device."""


Opened = TypeVar("Opened", bound=OpenDevice)


class DeviceBackend(ABC, Generic[Opened]):
    """Represent a backend whose device is opened at its first use."""

    blocks = "loops"
    _opened: Opened | None = None

    @property
    @abstractmethod
    def opened(self) -> Opened:
        """Return the device, which the first call opens; raise DeviceError if that is impossible."""

    @property
    def counters(self) -> DeviceCounters:
        """Return the numbers of waits and of copies to the host since the device was opened."""
        return self.opened.queue.counters

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array, made after all launches, that kernels use in place."""
        return self.opened.access.duplicate(array)

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return the element of an array at the indices `place` as a Python number."""
        return self.opened.access.item(array, place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in memory of the host."""
        return self.opened.access.fetch(array)

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`."""
        self.opened.access.assign(array, place, value)

    def share(self, array: np.ndarray) -> None:
        """Make later launches on an array end before their calls return, because foreign code uses the array too."""
        self.opened.access.share(array)

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self.opened.access.fill(array, value)

    def wait(self) -> None:
        """Wait until no launch is in flight; raise the device's error if there is one."""
        if self._opened is not None:
            self._opened.queue.settle()

    def sync(self) -> None:
        """Wait for all work of the device; raise its error if there is one."""
        if self._opened is not None:
            self._opened.queue.wait()

    def most_bytes(self) -> tuple[int, str]:
        """Return the bytes that the adstacks of a launch can have, and a text that names what sets this limit."""
        return self.opened.heap.most_bytes()

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the adstack memory by slab: bytes held now, and the most since the last reset."""
        if self._opened is None:
            return {slab: {"current": 0, "peak": 0} for slab in SLABS}
        return self._opened.heap.report()
