"""This module reads and writes, for Python code on the host, arrays in memory that host and device share.

Each access first waits for launches, then works in place. Each of them raises an error that occurred on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device.shared_memory import owner_of
from .mapped_memory import mapped_array
from .queue import Queue
from .readback import Readback


class HostAccess:
    """Read and write shared arrays for the host. Each access first waits for all launches."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._readback = Readback(queue)

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return the element of an array at the indices `place` as a Python number."""
        self._queue.settle()
        return array.item(place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in ordinary host memory."""
        self._queue.settle()
        if self._readback.pays(array):
            return self._readback.read(array)
        found = np.empty(array.shape, array.dtype)
        found[...] = array
        return found

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in memory that host and device share."""
        made = mapped_array(self._queue, array.shape, array.dtype)
        self._queue.settle()
        made[...] = array
        return made

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`."""
        self._queue.settle()
        array[place] = value

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self._queue.settle()
        array.fill(value)

    def share(self, array: np.ndarray) -> None:
        """Mark an array as shared with code outside of the runtime, and wait for all launches.

        From now on, a launch that touches this memory is over when the call returns.
        """
        owner = owner_of(array)
        if owner is not None and not owner.shared:
            owner.shared.append(True)
        self._queue.settle()
