"""This module manages memory that kernels on a GPU address: managed arrays, which the host shares, and device buffers.

A managed array is a NumPy array over memory that the driver moves to whatever touches it: host and device use one
address. It knows its owner by `base`, so that any view of it is recognized. Every other NumPy array is *foreign*: a
launch works on a copy in a buffer of the device.

Invariant: memory that launches may still use is given back through `CudaDevice.drop`.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from .. import owners
from .borrowed import BorrowedMemory
from .device import CudaDevice
from .driver import NOTHING_LEFT, DriverError


class ManagedMemory:
    """Own a piece of managed memory; NumPy arrays over this memory keep the object alive.

    Attributes:
        device: GPU of the memory.
        shared: List that is not empty once other programs may touch the memory without asking.
        bytes: Bytes of the memory.
        address: Address of the memory.
    """

    def __init__(self, device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device = device
        self.shared: list[bool] = []
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.address = _managed(device, self.bytes)
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (self.address, False), "version": 3}
        driver, address = device.driver, self.address
        weakref.finalize(self, device.drop, lambda: driver.free(address), self.bytes)


def managed_array(device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new managed array that is not initialized; raise DeviceError if memory is short."""
    return np.asarray(ManagedMemory(device, shape, dtype))


def managed_zeros(device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new managed array of zeros, which the device writes; raise DeviceError if memory is short."""
    owner = ManagedMemory(device, shape, dtype)
    device.driver.zero(owner.address, owner.bytes)
    device.launched()
    return np.asarray(owner)


def _managed(device: CudaDevice, size: int) -> int:
    """Return the address of new managed memory."""
    device.tidy()
    return _asked(device, size, device.driver.allocate_managed)


def _asked(device: CudaDevice, size: int, ask: Any) -> int:
    """Return the address that `ask(size)` allocates; if memory is short, free dropped memory and ask once more."""
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


def owner_of(array: np.ndarray) -> ManagedMemory | None:
    """Return the ManagedMemory object of an array, or None if its memory is not managed."""
    found = owners.owner_of(array)
    return found if isinstance(found, ManagedMemory) else None


def is_addressable(array: np.ndarray, device: CudaDevice) -> bool:
    """Return True if kernels of a device address the array as it is."""
    found = owners.owner_of(array)
    return isinstance(found, (ManagedMemory, BorrowedMemory)) and found.device is device


class Buffers:
    """Allocate device buffers for the duration of a launch; free buffers are reused, sorted by power of two."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> tuple[int, int]:
        """Return (address, bytes) of a buffer; raise DeviceError if memory is short."""
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
        """Return all free buffers to the device."""
        for kept in self._free.values():
            while kept:
                self._device.driver.free(kept.pop())
