"""CudaBackend: compiles kernels for one NVIDIA GPU and launches them without waiting for it.

The GPU is opened when it is first asked for; a machine without one says so, and how to get one. Another driver than
NVIDIA's may be given (driver.py).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from ...compiler.ir.depth import deep
from ...compiler.ir.nodes import Kernel
from ..base import SLABS, Counters, Flight, Options, Probe, Sizes
from . import stacks
from .access import HostAccess
from .borrowed import borrow, interface_of
from .code import generate, layout_of
from .device import Device
from .driver import HINTS, Driver, DriverError, Unavailable
from .executable import CudaExecutable, limits_of
from .heap import DeviceHeap
from .memory import Buffers, is_addressable, managed_zeros
from .nvidia import CudaDriver
from .ptx import ptx


class CudaBackend:
    """Kernels on an NVIDIA GPU. device: opened at the first look; heap: of its adstacks; buffers: for copies."""

    name = "cuda"

    def __init__(self, driver: Driver | None = None) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._device: Device | None = None
        self._refused: DeviceError | None = None

    @property
    def device(self) -> Device:
        """The GPU. Raises DeviceError if there is none."""
        with self._lock:
            if self._device is None:
                if self._refused is not None:
                    raise self._refused
                try:
                    self._open(self._driver or CudaDriver())
                except DeviceError as refused:
                    self._refused = refused
                    raise
            assert self._device is not None
            return self._device

    def _open(self, driver: Driver) -> None:
        self._device = Device(driver)
        self.heap = DeviceHeap(driver)
        self.buffers = Buffers(self._device)
        self.access = HostAccess(self._device)
        self._device.followers.append(self.heap.use)
        self._device.forgetters.append(self.heap.forget)

    def probe(self) -> Probe:
        """Available where a GPU and its driver are, and cuda.bindings is installed."""
        try:
            card = self.device.driver.card
        except Unavailable as problem:
            return Probe(False, reason=problem.reason, cure=problem.cure)
        except DeviceError as problem:
            return Probe(False, reason=str(problem), cure="see that `nvidia-smi` lists a GPU that is free")
        major, minor = card.capability
        memory = f"{card.memory_bytes / 2**30:.0f} GiB"
        return Probe(True, version=f"{card.name}, sm_{major}{minor}, {memory}, driver for CUDA {card.driver_version}")

    @deep
    def compile(self, kernel: Kernel, options: Options) -> CudaExecutable:
        """Generate, assemble and load. Raises Unsupported for what backends/limits.py declares."""
        device = self.device
        return CudaExecutable(generate(kernel, options), device, self.heap, self.buffers)

    def ptx(self, kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
        """PTX of a kernel; see `ptx.ptx`."""
        return ptx(kernel, arch, options)

    # -- memory that the host shares --------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What was waited for and copied to the host since the GPU was opened."""
        return self.device.counters

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Memory of an array that kernels use without copies. Raises DeviceError."""
        return managed_zeros(self.device, shape, dtype)

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """Memory on the GPU of another library; see borrowed.py. Raises ValueError for what kernels cannot address."""
        return borrow(self.device, self.fetch, interface, lender, stream)

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """`__cuda_array_interface__` of an array of ours; its work is in order with launches on the stream it names."""
        return interface_of(array, self.device.stream)

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """A copy behind all launches, made by the device, that kernels use without copies."""
        return self.access.duplicate(array)

    def is_own(self, array: np.ndarray) -> bool:
        """Whether kernels use the array without copies."""
        return is_addressable(array, self.device)

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """An element as a Python number."""
        return self.access.item(array, place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array."""
        return self.access.fetch(array)

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """`array[place] = value`, of the array's type."""
        self.access.assign(array, place, value)

    def share(self, array: np.ndarray) -> None:
        """From now on others may touch the memory without asking."""
        self.access.share(array)

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self.access.fill(array, value)

    def wait(self) -> None:
        """For all launches, if any may be in flight. Raises what went wrong on the device."""
        self.device.settle()

    def sync(self) -> None:
        """For everything that the device has to do. Raises what went wrong there."""
        self.device.wait()

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight:
        """A row for each thread of the task."""
        limits = limits_of(self.device.driver)
        return stacks.rows_in_flight(kernel, layout_of(kernel, options), task, sizes, limits)

    def most_bytes(self) -> tuple[int, str]:
        """(bytes that the adstacks of a launch can have, who says so)."""
        return self.heap.most_bytes()

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Adstack memory by slab: bytes held now, and the most since the last reset."""
        if self._device is None:
            return {slab: {"current": 0, "peak": 0} for slab in SLABS}
        return self.heap.report()

    def reset(self) -> None:
        """Wait, and give all adstack memory and free buffers back; errors that nobody waited for are dropped.

        A GPU that is lost to this process has nothing to give.
        """
        if self._device is None:
            return
        try:
            self._device.close()
            self.heap.reset()
            self.buffers.clear()
        except DriverError as error:
            if error.code not in HINTS:
                raise
