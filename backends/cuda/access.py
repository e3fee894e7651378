"""This module lets the host read and write memory of the device, by copies that follow all launches.

A copy leaves memory in its place, so that no page of a managed array moves to the host and back. Memory that is not
managed, and parts that are not one run of bytes, are touched directly, after a wait.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..device.shared_memory import SharedMemory, owner_of
from .device import CudaDevice
from .memory import is_addressable, managed_array


class HostAccess:
    """Let the host read and write arrays after all launches; each method raises a pending error of the device."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._shared: weakref.WeakSet[SharedMemory] = weakref.WeakSet()

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return the element of an array at the indices `place` as a Python number."""
        if not is_addressable(array, self._device):
            self._device.settle()
            return array.item(place)
        found = np.empty((), array.dtype)
        self._device.read(_address(found), _element(array, place), array.itemsize)
        return found.item()

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a contiguous copy of an array in host memory."""
        device = self._device
        if not array.size or not array.flags.c_contiguous or not is_addressable(array, device):
            device.settle()
            return array.copy(order="C")
        found = np.empty(array.shape, array.dtype)
        device.read(_address(found), _address(array), array.nbytes)
        return found

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array in managed memory, which kernels use in place."""
        device = self._device
        made = managed_array(device, array.shape, array.dtype)
        if is_addressable(array, device) and array.flags.c_contiguous:
            device.driver.copy(_address(made), _address(array), array.nbytes)
        else:
            device.write(_address(made), _address(np.ascontiguousarray(array)), array.nbytes)
        device.launched()
        return made

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the type of the array, in `array[place]`, a part of the array."""
        device = self._device
        # The host reads the value itself.
        if isinstance(value, np.ndarray) and owner_of(value) is not None:
            device.settle()
        target = self._target(array, place)
        if target is None or not is_addressable(array, device):
            device.settle()
            array[place] = value
            return
        address, shape = target
        source = np.ascontiguousarray(np.broadcast_to(np.asarray(value, array.dtype), shape))
        device.write(address, _address(source), source.nbytes)
        self._settle_shared()

    def share(self, array: np.ndarray) -> None:
        """Make later launches on an array end before their calls return, because foreign code uses the array too.

        From now on a call that launches on it returns only when the launch is over.
        """
        owner = owner_of(array)
        if owner is not None and not owner.shared:
            owner.shared.append(True)
            self._shared.add(owner)
        self._device.settle()

    def _settle_shared(self) -> None:
        """Wait for the device after a host write if code outside of the runtime uses any array on the device."""
        if self._shared:
            self._device.driver.wait()

    def _target(self, array: np.ndarray, place: Any) -> tuple[int, tuple[int, ...]] | None:
        """Return (address, shape) of the part `array[place]`, or None if the part is not contiguous in memory."""
        parts = place if isinstance(place, tuple) else (place,)
        if len(parts) == array.ndim and all(isinstance(part, (int, np.integer)) for part in parts):
            return _element(array, parts), ()
        if not all(isinstance(part, (int, np.integer, slice)) or part is Ellipsis for part in parts):
            return None
        # With an ellipsis, NumPy always returns a view.
        view = array[(*parts, ...) if Ellipsis not in parts else parts]
        return (_address(view), view.shape) if view.flags.c_contiguous and view.size else None

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        device, driver = self._device, self._device.driver
        if not array.size or not array.flags.c_contiguous or not is_addressable(array, device):
            device.settle()
            array.fill(value)
            return
        item, start = np.asarray(value, array.dtype), _address(array)
        size, total = array.itemsize, array.nbytes
        pattern = int.from_bytes(item.tobytes(), "little")
        if size <= 4 or pattern == 0:
            width = size if size <= 4 else 1
            driver.fill(start, pattern, width, total // width)
        else:
            device.write(start, _address(item), size)
            done = size
            while done < total:
                part = min(done, total - done)
                driver.copy(start + done, start, part)
                done += part
        device.launched()
        self._settle_shared()


def _address(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _element(array: np.ndarray, place: tuple[int, ...]) -> int:
    """Return the address of an element; a negative index counts from the end."""
    steps = ((p + extent if p < 0 else p) * stride for p, extent, stride in zip(place, array.shape, array.strides))
    return _address(array) + sum(steps)
