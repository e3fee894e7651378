"""Make NumPy arrays over mapped memory, which host and device share and kernels use in place.

A mapped array reaches its owner by `base`, so that any view of it is recognized. Every other NumPy array is *foreign*:
a launch works on a copy of it in mapped memory. Invariant: memory that launches may still use is given back through
`Queue.drop`.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from .. import owners
from .queue import Queue


class MappedMemory:
    """Own a piece of shared memory, over which NumPy arrays are made. The arrays keep this owner alive.

    Attributes:
        queue: queue whose launches use the memory
        shared: not empty once other code may touch the memory without asking
        bytes: number of bytes
        address: address for the host
    """

    def __init__(self, queue: Queue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.queue = queue
        self.shared: list[bool] = []
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        queue.tidy()
        piece = _taken(queue, max(self.bytes, 1))
        self.address = piece.address
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (self.address, False), "version": 3}
        arena = queue.arena
        weakref.finalize(self, queue.drop, lambda: arena.give(piece), self.bytes).atexit = False


def _taken(queue: Queue, size: int) -> Any:
    """Return a piece of shared memory. If there is none left, wait, free dropped memory and try again."""
    try:
        return queue.arena.take(size)
    except DeviceError:
        queue.wait()
        queue.arena.trim()
    try:
        return queue.arena.take(size)
    except DeviceError as again:
        held, total = queue.arena.held, queue.device.memory_types[0][1]
        text = f"{size} bytes of memory are asked for; arrays hold {held} of {total} bytes of {queue.device.card.name}"
        raise DeviceError(f"{text}; cure: use smaller or fewer arrays") from again


def mapped_array(queue: Queue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new mapped array that is not initialized; raise DeviceError if memory is short."""
    return np.asarray(MappedMemory(queue, shape, dtype))


def mapped_zeros(queue: Queue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new mapped array of zeros; raise DeviceError if memory is short."""
    owner = MappedMemory(queue, shape, dtype)
    ctypes.memset(owner.address, 0, owner.bytes)
    return np.asarray(owner)


def owner_of(array: np.ndarray) -> MappedMemory | None:
    """Return the MappedMemory that owns the memory of an array, or None if none does."""
    found = owners.owner_of(array)
    return found if isinstance(found, MappedMemory) else None


def is_own(array: np.ndarray, queue: Queue | None) -> bool:
    """Return True if kernels on this queue use the array in place."""
    owner = owner_of(array)
    return owner is not None and owner.queue is queue
