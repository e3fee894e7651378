"""Make arrays over mapped memory, which host and device share and kernels use in place (device/shared_memory.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from ..device.shared_memory import SharedMemory, owner_of
from .queue import Queue


class MappedMemory(SharedMemory):
    """Own mapped Vulkan memory, which host and device share, for the NumPy arrays over this memory."""

    queue: Queue

    def _allocate(self, size: int) -> tuple[int, Callable[[], None]]:
        """Return the address of a new piece of the arena, and a function that frees it."""
        piece = _taken(self.queue, max(size, 1))
        return piece.address, partial(self.queue.arena.give, piece)


def _taken(queue: Queue, size: int) -> Any:
    """Return `size` bytes of shared memory; if none are left, wait, free dropped memory and try again."""
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


def is_own(array: np.ndarray, queue: Queue | None) -> bool:
    """Return True if kernels that are submitted to this queue use the array in place."""
    owner = owner_of(array)
    return owner is not None and owner.queue is queue
