"""This module compiles kernels to SPIR-V pipelines and launches them without waiting (class VulkanBackend).

The device is opened when it is first asked for, and anew in a forked process. On a device without buffer addresses,
launches are over when they return, and work on copies (descriptors.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError, StackgradError, Unsupported
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.printer import print_statement
from ...compiler.ir.statement import Stmt
from ...compiler.ir.walk import results, walk_task
from ..base import Concurrency, Options, Probe, Sizes
from ..device import stacks
from ..device.backend import DeviceBackend
from ..device.heap import DeviceHeap
from ..limits import SHARED_CURE, shared_bytes
from ..spirv.emit import ShaderFeatures
from ..spirv.shaders import LOCAL_SIZE, Shaders, generate, layout_of
from . import policy
from .access import HostAccess
from .descriptors import DescriptorExecutable
from .device import VulkanDevice
from .executable import VulkanExecutable
from .mapped_memory import is_own, mapped_zeros
from .memory import BufferPool, DeviceLocalMemory, VulkanHeap
from .physical_devices import NoVulkanDevice, PhysicalDevice
from .queue import Queue

MASK = "STACKGRAD_VULKAN_MASK"
"""The environment variable that names features to mask, with commas between them."""

GROUPS = {True: 32, False: 4096}
"""Greatest number of groups of a task, by whether the device is a CPU: 4,096 groups of 64 threads fill any GPU."""

CAPABILITIES = {
    "Float64": "float64",
    "Int8": "int8",
    "Int16": "int16",
    "Int64Atomics": "int64_atomics",
    "StorageBuffer8BitAccess": "int8",
    "StorageBuffer16BitAccess": "int16",
}
"""The feature of a device that lets a module declare a capability."""


def most_threads(device: VulkanDevice) -> int:
    """Return the greatest number of threads that a task may have on a device."""
    return GROUPS[device.card.is_cpu] * LOCAL_SIZE


_TYPES = {"Float64": ("f64",), "Int8": ("i8", "u8", "u1"), "Int16": ("i16", "u16", "f16")}


def _needs(stmt: Stmt, capability: str) -> bool:
    """Return True if a result of the statement has a type that requires the SPIR-V capability."""
    types = _TYPES.get(capability, ())
    return any(str(value.type) in types for value in results(stmt))


class OpenVulkan:
    """Hold an open device with its queue and adstack heap.

    Attributes:
        device: Vulkan device that is open
        queue: queue that tracks the work of the device
        pool: buffers that launches borrow if they do not use arrays in place
        heap: memory of adstacks
        access: reads and writes by the host
    """

    def __init__(self, masked: tuple[str, ...] = ()) -> None:
        self.device = VulkanDevice(masked=masked)
        self.queue = Queue(self.device)
        self.pool = BufferPool(self.device)
        self.heap: DeviceHeap | VulkanHeap = VulkanHeap(self.device)
        if self.device.addressed:
            self.heap = DeviceHeap(DeviceLocalMemory(self.device, lambda: self.queue.finish()))
        self.access = HostAccess(self.queue)

    def reset(self) -> None:
        """Wait for all launches and free all adstack memory and idle buffers; errors not raised yet are dropped."""
        self.queue.close()
        with self.device.lock:
            self.heap.reset()
            self.pool.clear()
        self.queue.arena.trim()


def _check_blocks(kernel: Kernel, card: PhysicalDevice) -> None:
    """Raise Unsupported if a block has more threads or more shared memory than a workgroup of the device can have."""
    for task in kernel.tasks:
        if task.block > card.most_block:
            raise Unsupported(
                f"kernel {kernel.name}: a block has {task.block} iterations, and workgroups of {card.name} have at most"
                f" {card.most_block} threads",
                f"write `sg.loop_config(block_dim={card.most_block})` before the loop",
                kernel.span(task.loc),
            )
        for stmt, used in shared_bytes(task, word=4):
            if used > card.shared_bytes:
                raise Unsupported(
                    f"kernel {kernel.name}: shared arrays of one block take {used} bytes, and workgroups of {card.name}"
                    f" share {card.shared_bytes}",
                    SHARED_CURE,
                    kernel.span(stmt.loc),
                )


class VulkanBackend(DeviceBackend[OpenVulkan]):
    """Compile kernels to shaders for one Vulkan device, and run them there.

    Attributes:
        masked: features that are not used even where the device has them, so that each way around a missing feature
            runs on any machine; by default those that the variable MASK names
    """

    name = "vulkan"
    blocks = "threads"

    def __init__(self, masked: tuple[str, ...] | None = None) -> None:
        given = os.environ.get(MASK, "") if masked is None else ",".join(masked)
        self.masked = tuple(name.strip() for name in given.split(",") if name.strip())
        self._lock = threading.RLock()

    @property
    def opened(self) -> OpenVulkan:
        """Return the device and its queue, which the first call opens.

        Raises:
            NoVulkanDevice: if there is no device
            DeviceError: if it does not open
        """
        with self._lock:
            if self._opened is None or self._opened.device.process != os.getpid():
                self._opened = OpenVulkan(self.masked)
            return self._opened

    @property
    def device(self) -> VulkanDevice:
        """Return the open device; raise the exception of `opened` if no device can be opened."""
        return self.opened.device

    def probe(self) -> Probe:
        """Return a Probe: the version of the device if one can be opened, or a reason and a cure if not."""
        try:
            card = self.device.card
        except NoVulkanDevice as absent:
            return Probe(False, reason=absent.reason, cure=absent.cure)
        except (StackgradError, OSError) as problem:
            return Probe(False, reason=f"no Vulkan device opens: {problem}", cure="use the cpu backend")
        return Probe(True, version=f"Vulkan {card.version}, {card.name}")

    @property
    def features(self) -> ShaderFeatures:
        """Return the device features that the SPIR-V generator may use."""
        return replace(self.device.card.features, shared_errors=self.device.addressed, lists=True)

    def compile(self, kernel: Kernel, options: Options) -> VulkanExecutable | DescriptorExecutable:
        """Generate SPIR-V for a kernel, make pipelines from it, and return the executable.

        Raises:
            Unsupported: for declared limits, and for features that the device lacks
            DeviceError: if the driver refuses the module
        """
        opened, features = self.opened, self.features
        _check_blocks(kernel, opened.device.card)
        shaders = generate(kernel, options, features)
        lacking = [c for c in shaders.capabilities if c in CAPABILITIES and not getattr(features, CAPABILITIES[c])]
        if lacking:
            raise self._refused(kernel, lacking)
        try:
            return self._loaded(opened, kernel, shaders, options)
        except DeviceError as problem:
            raise DeviceError(f"kernel {kernel.name}: {problem}") from problem

    def _loaded(
        self, opened: OpenVulkan, kernel: Kernel, shaders: Shaders, options: Options
    ) -> VulkanExecutable | DescriptorExecutable:
        """Return the executable of the shaders. Raise DeviceError if the driver refuses them."""
        most = most_threads(opened.device)
        if isinstance(opened.heap, VulkanHeap):
            return DescriptorExecutable(kernel, shaders, opened.device, opened.pool, opened.heap, most)
        return VulkanExecutable(kernel, shaders, opened.queue, opened.heap, options, most)

    def _refused(self, kernel: Kernel, lacking: list[str]) -> Unsupported:
        """Return the error that refuses a kernel, located at the first statement whose type the device lacks."""
        statements = (s for task in kernel.tasks for s in walk_task(task))
        found = next((s for s in statements if any(_needs(s, c) for c in lacking)), None)
        reason = f"kernel {kernel.name}: {self.device.card.name} has no {', no '.join(lacking)}"
        if found is not None:
            reason += f", which `{print_statement(found).splitlines()[0]}` needs"
        return Unsupported(
            reason,
            "use types and functions that the device has, or the cpu backend",
            None if found is None else kernel.span(found.loc),
        )

    # -- memory that the host shares --------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array of zeros in memory that kernels use in place. Raise DeviceError if memory is short."""
        return mapped_zeros(self.opened.queue, shape, dtype)

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """Raise ValueError, because Vulkan kernels cannot use the CUDA memory of other libraries."""
        raise ValueError("it is memory of CUDA, which Vulkan does not address")

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """Raise AttributeError, because arrays in Vulkan memory have no `__cuda_array_interface__`."""
        raise AttributeError("__cuda_array_interface__: memory of Vulkan is not CUDA's")

    def is_own(self, array: np.ndarray) -> bool:
        """Return True if kernels use the array in place, without a copy."""
        return self._opened is not None and is_own(array, self._opened.queue)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency:
        """Return the number of rows that a task's adstacks need: one for each of its threads."""
        device, features = self.device, self.features
        kernel, layout = layout_of(kernel, options, features)
        limits = policy.description(device)
        return stacks.rows_in_flight(policy.place(kernel, layout, limits, most_threads(device)), task, sizes)

    def reset(self) -> None:
        """Wait for all launches and free all adstack memory and idle buffers; errors not raised yet are dropped."""
        if self._opened is not None and self._opened.device.process == os.getpid():
            self._opened.reset()
