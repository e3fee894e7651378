"""This module defines CudaBackend, which compiles kernels for one NVIDIA GPU and launches them without waiting for it.

The GPU is opened when it is first asked for; a machine without one says so, and how to get one. A driver other than
NVIDIA's may be given (driver.py).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError
from ...compiler.ir.depth import with_stack_room
from ...compiler.ir.kernels import Kernel
from ..base import Concurrency, Options, Probe, Sizes
from ..device import stacks
from ..device.backend import DeviceBackend
from ..device.heap import DeviceHeap
from .access import HostAccess
from .borrowed import borrow, interface_of
from .code import generate, layout_of
from .device import CudaDevice
from .driver import HINTS, Driver, DriverError, NoCudaDevice
from .executable import CudaExecutable, limits_of
from .memory import Buffers, is_addressable, managed_zeros
from .nvidia import CudaDriver
from .ptx import ptx


class OpenCuda:
    """Hold an open GPU: its queue, its adstack heap, buffers for copies, and host access to its memory.

    Attributes:
        queue: The GPU, with its streams and pending work.
        heap: Heap of its adstacks.
        buffers: Device buffers for copies of external arrays.
        access: Access of the host to memory of the device.
    """

    def __init__(self, driver: Driver) -> None:
        self.queue = CudaDevice(driver)
        self.heap = DeviceHeap(driver)
        self.buffers = Buffers(self.queue)
        self.access = HostAccess(self.queue)
        self.queue.followers.append(self.heap.use)
        self.queue.forgetters.append(self.heap.forget)

    def reset(self) -> None:
        """Wait for the GPU, then free all adstack memory and unused buffers; errors not raised before are dropped."""
        self.queue.close()
        self.heap.reset()
        self.buffers.clear()


class CudaBackend(DeviceBackend[OpenCuda]):
    """Compile and run kernels on an NVIDIA GPU."""

    name = "cuda"
    blocks = "warps"

    def __init__(self, driver: Driver | None = None) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._refused: DeviceError | None = None

    @property
    def opened(self) -> OpenCuda:
        """Return the GPU, which the first call opens; raise DeviceError if there is none."""
        with self._lock:
            if self._opened is None:
                if self._refused is not None:
                    raise self._refused
                try:
                    self._opened = OpenCuda(self._driver or CudaDriver())
                except DeviceError as refused:
                    self._refused = refused
                    raise
            return self._opened

    @property
    def device(self) -> CudaDevice:
        """Return the GPU, which the first use opens; raise DeviceError if there is none."""
        return self.opened.queue

    def probe(self) -> Probe:
        """Report whether a GPU and its driver can be used, and cuda.bindings is installed."""
        try:
            card = self.device.driver.card
        except NoCudaDevice as problem:
            return Probe(False, reason=problem.reason, cure=problem.cure)
        except DeviceError as problem:
            return Probe(False, reason=str(problem), cure="see that `nvidia-smi` lists a GPU that is free")
        major, minor = card.capability
        memory = f"{card.memory_bytes / 2**30:.0f} GiB"
        return Probe(True, version=f"{card.name}, sm_{major}{minor}, {memory}, driver for CUDA {card.driver_version}")

    @with_stack_room
    def compile(self, kernel: Kernel, options: Options) -> CudaExecutable:
        """Generate, assemble and load the code of a kernel, and return the executable.

        Raises:
            Unsupported: The kernel uses something that backends/limits.py declares as unsupported.
        """
        opened = self.opened
        return CudaExecutable(generate(kernel, options), opened.queue, opened.heap, opened.buffers)

    def ptx(self, kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
        """Return the PTX text of a kernel for an NVIDIA architecture such as sm_90."""
        return ptx(kernel, arch, options)

    # -- memory that the host shares --------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return a managed array of zeros, which kernels use without copies; raise DeviceError if memory is short."""
        return managed_zeros(self.device, shape, dtype)

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """Return an array over GPU memory that belongs to another library, without a copy; see borrowed.py.

        Args:
            interface: `__cuda_array_interface__` of the memory.
            lender: Owner of the memory, which is kept alive.
            stream: Stream on which the lender orders its work; None if its work is over.

        Raises:
            ValueError: Kernels cannot address the memory.
        """
        return borrow(self.device, self.fetch, interface, lender, stream)

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """Return the `__cuda_array_interface__` of an array of this backend.

        The work on the array is in order with launches on the stream that the interface names.
        """
        return interface_of(array, self.device.stream)

    def is_own(self, array: np.ndarray) -> bool:
        """Return True if kernels use the array without copies."""
        return is_addressable(array, self.device)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency:
        """Return the number of rows of a task: one for each thread."""
        placement = stacks.place(kernel, layout_of(kernel, options), limits_of(self.device.driver))
        return stacks.rows_in_flight(placement, task, sizes)

    def reset(self) -> None:
        """Wait, then free all adstack memory and unused buffers. Device errors not raised before are dropped.

        If the GPU is lost to this process, nothing is freed.
        """
        if self._opened is None:
            return
        try:
            self._opened.reset()
        except DriverError as error:
            if error.code not in HINTS:
                raise
