"""Memory that kernels on a GPU address: managed arrays, which the host shares, and buffers of the device.

A managed array is a NumPy array over memory that the driver moves to whoever touches it: host and device use one
address. It knows its owner by `base`, so that any view of it is recognised. Every other NumPy array is *foreign*: a
launch works on a copy in a buffer of the device.

Invariant: memory that launches may still use is given back through `Device.drop`.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from .. import owners
from .borrowed import Borrowed
from .device import Device
from .driver import NOTHING_LEFT, DriverError


class Managed:
    """Owner of managed memory. NumPy makes arrays over it, which keep it alive.

    shared: holds something once others may touch the memory without asking.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device = device
        self.shared: list[bool] = []
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.address = _managed(device, self.bytes)
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (self.address, False), "version": 3}
        driver, address = device.driver, self.address
        weakref.finalize(self, device.drop, lambda: driver.free(address), self.bytes)


def managed(device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A new managed array, of any content. Raises DeviceError with the numbers."""
    return np.asarray(Managed(device, shape, dtype))


def managed_zeros(device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A new managed array of zeros, which are written by the device. Raises DeviceError with the numbers."""
    owner = Managed(device, shape, dtype)
    device.driver.zero(owner.address, owner.bytes)
    device.launched()
    return np.asarray(owner)


def _managed(device: Device, size: int) -> int:
    device.tidy()
    return _asked(device, size, device.driver.allocate_managed)


def _asked(device: Device, size: int, ask: Any) -> int:
    """Memory; if there is none left, once more after what was dropped has gone back."""
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


def owner_of(array: np.ndarray) -> Managed | None:
    """The owner of the memory of an array, if it is managed."""
    found = owners.owner_of(array)
    return found if isinstance(found, Managed) else None


def is_addressable(array: np.ndarray, device: Device) -> bool:
    """Whether kernels of a device address the array as it is."""
    found = owners.owner_of(array)
    return isinstance(found, (Managed, Borrowed)) and found.device is device


class Buffers:
    """Memory of the device for what lives as long as a launch: kept when it is free, by powers of two."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> tuple[int, int]:
        """(address, bytes). Raises DeviceError with the numbers."""
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
        """A buffer is free: what is launched from now on, on the same stream, may use it."""
        self._free.setdefault(size, []).append(address)

    def clear(self) -> None:
        """Give all free buffers back."""
        for kept in self._free.values():
            while kept:
                self._device.driver.free(kept.pop())
