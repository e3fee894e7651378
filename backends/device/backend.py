"""Define what all backends of GPUs have beside kernels: arrays that the host shares, waits, and reports (`Remote`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..base import SLABS, DeviceCounters
from .queue import DeviceQueue


class HostAccess(Protocol):
    """Define how the host accesses arrays after all launches; each method raises the device's error if any."""

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return an element of an array as a Python number."""

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in ordinary host memory."""

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in memory that host and device share."""

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`."""

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""

    def share(self, array: np.ndarray) -> None:
        """Mark an array's memory as used by foreign code too; later launches on it return only when they are over."""


class ReportedHeap(Protocol):
    """Define what a backend tells of its adstack heap."""

    def most_bytes(self) -> tuple[int, str]:
        """Return the bytes that all slabs together can ever have, and a text that names what sets this limit."""

    def report(self) -> dict[str, dict[str, int]]:
        """Return {"real": {"current": bytes, "peak": bytes}, ...}, with the peak since the last reset."""


class OpenDevice(Protocol):
    """Represent a device that a backend has opened, with what belongs to it."""

    @property
    def queue(self) -> DeviceQueue:
        """Return the work of the device."""

    @property
    def heap(self) -> ReportedHeap:
        """Return the memory of adstacks."""

    @property
    def access(self) -> HostAccess:
        """Return the reads and writes by the host."""


Opened = TypeVar("Opened", bound=OpenDevice)


class DeviceBackend(ABC, Generic[Opened]):
    """Represent a backend whose device is opened when it is first asked for."""

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
        """Return an element as a Python number."""
        return self.opened.access.item(array, place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in memory of the host."""
        return self.opened.access.fetch(array)

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`."""
        self.opened.access.assign(array, place, value)

    def share(self, array: np.ndarray) -> None:
        """Let code outside the runtime touch the memory of an array without asking from now on."""
        self.opened.access.share(array)

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self.opened.access.fill(array, value)

    def wait(self) -> None:
        """Wait for all launches if any may be in flight; raise what went wrong on the device."""
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
