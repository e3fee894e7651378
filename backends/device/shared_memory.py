"""Make NumPy arrays over memory that host and device share, which kernels use in place.

Such an array reaches the owner of its memory by `base`, so that any view of it is recognized. Every other NumPy array
is *foreign*: a launch works on a copy of it. Invariant: memory that launches may still use is given back through
`DeviceQueue.drop`.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import owners
from .queue import DeviceQueue


class SharedMemory(ABC):
    """Own memory that host and device share; NumPy makes arrays over it, which keep their owner alive.

    Attributes:
        queue: Queue whose launches use the memory.
        shared: List that is not empty once other code may touch the memory without asking.
        bytes: Bytes of the memory.
        address: Address of the memory for the host.
    """

    def __init__(self, queue: DeviceQueue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.queue = queue
        self.shared: list[bool] = []
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        queue.tidy()
        self.address, give_back = self._allocate(self.bytes)
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (self.address, False), "version": 3}
        weakref.finalize(self, queue.drop, give_back, self.bytes).atexit = False

    @abstractmethod
    def _allocate(self, size: int) -> tuple[int, Callable[[], None]]:
        """Return the address of new memory, and a function that frees it; raise DeviceError if memory is short."""


def owner_of(array: np.ndarray) -> SharedMemory | None:
    """Return the owner of the memory of an array if host and device share it, else None."""
    found = owners.owner_of(array)
    return found if isinstance(found, SharedMemory) else None
