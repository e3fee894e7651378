"""What the host does with memory that it shares with a device: it waits for launches, then reads and writes in place.

Any of it raises what went wrong on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .mapped import mapped, owner_of
from .queue import Queue
from .readback import Readback


class HostAccess:
    """Reads and writes arrays for the host, behind all launches."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._readback = Readback(queue)

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """An element as a Python number."""
        self._queue.settle()
        return array.item(place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """A copy in memory of the host alone."""
        self._queue.settle()
        if self._readback.pays(array):
            return self._readback.read(array)
        found = np.empty(array.shape, array.dtype)
        found[...] = array
        return found

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """A copy that kernels use in place."""
        made = mapped(self._queue, array.shape, array.dtype)
        self._queue.settle()
        made[...] = array
        return made

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """`array[place] = value`, of the array's type."""
        self._queue.settle()
        array[place] = value

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self._queue.settle()
        array.fill(value)

    def share(self, array: np.ndarray) -> None:
        """From now on others may touch the memory without asking: what touches it is over when a call returns."""
        owner = owner_of(array)
        if owner is not None and not owner.shared:
            owner.shared.append(True)
        self._queue.settle()
