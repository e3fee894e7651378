"""This module manages memory that kernels on a GPU address: managed arrays, which the host shares, and device buffers.

A managed array is a NumPy array over memory that the driver moves to whatever touches it: host and device use one
address (device/shared_memory.py). A launch works on copies of other arrays, in buffers of the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from .. import owners
from ..device.shared_memory import SharedMemory
from .borrowed import BorrowedMemory
from .device import CudaDevice
from .driver import NOTHING_LEFT, DriverError


class ManagedMemory(SharedMemory):
    """Own managed CUDA memory, which host and GPU share, for the NumPy arrays over this memory."""

    queue: CudaDevice

    def _allocate(self, size: int) -> tuple[int, Callable[[], None]]:
        """Return the address of new managed memory, and a function that frees it."""
        driver = self.queue.driver
        address = _asked(self.queue, size, driver.allocate_managed)
        return address, partial(driver.free, address)


def managed_array(device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new managed array that is not initialized; raise DeviceError if memory is short."""
    return np.asarray(ManagedMemory(device, shape, dtype))


def managed_zeros(device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new managed array of zeros, which the device writes; raise DeviceError if memory is short."""
    owner = ManagedMemory(device, shape, dtype)
    device.driver.zero(owner.address, owner.bytes)
    device.launched()
    return np.asarray(owner)


def _asked(device: CudaDevice, size: int, ask: Any) -> int:
    """Return the address that `ask(size)` allocates; if memory is short, free dropped memory and try again."""
    try:
        address: int = ask(size)
    except DriverError as refused:
        if refused.code != NOTHING_LEFT:
            raise
        device.wait()
        try:
            address = ask(size)
        except DriverError as again:
            free, total = device.driver.free_memory()
            text = f"{size} bytes of memory are asked for; {device.driver.name} has {free} of {total} bytes left"
            raise DeviceError(f"{text}; cure: use smaller or fewer arrays") from again
    return address


def is_addressable(array: np.ndarray, device: CudaDevice) -> bool:
    """Return True if kernels of a device can use the array in place, without a copy."""
    found = owners.owner_of(array)
    if isinstance(found, BorrowedMemory):
        return found.device is device
    return isinstance(found, ManagedMemory) and found.queue is device


class Buffers:
    """Allocate device buffers for launches, with powers of two as sizes; a free buffer is reused for an equal size."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> tuple[int, int]:
        """Return the address and the size of a free device buffer; raise DeviceError if memory is short."""
        size = 1 << max(size - 1, 255).bit_length()
        kept = self._free.get(size)
        if kept:
            return kept.pop(), size
        try:
            return _asked(self._device, size, self._device.driver.allocate), size
        except DeviceError:
            self.clear()
            return _asked(self._device, size, self._device.driver.allocate), size

    def give(self, address: int, size: int) -> None:
        """Mark a buffer as free: later launches on the same stream may use it."""
        self._free.setdefault(size, []).append(address)

    def clear(self) -> None:
        """Free the memory of all buffers that no launch uses."""
        for kept in self._free.values():
            while kept:
                self._device.driver.free(kept.pop())
