"""VulkanBackend: compiles kernels to SPIR-V, makes pipelines of them, and launches them without waiting.

The device is opened when it is first asked for, anew in a forked process. On one without buffer addresses launches are
over when they return, and work on copies (descriptors.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...compiler.errors import DeviceError, StackgradError, Unsupported
from ...compiler.ir.nodes import Kernel, Stmt
from ...compiler.ir.printer import print_statement
from ...compiler.ir.walk import results, walk_task
from ..base import SLABS, Counters, Flight, Options, Probe, Sizes
from ..cuda.heap import DeviceHeap
from ..spirv.emit import Features
from ..spirv.shaders import LOCAL_SIZE, Shaders, generate, layout_of
from . import policy
from .access import HostAccess
from .descriptors import DescriptorExecutable
from .device import Absent, Device
from .executable import VulkanExecutable
from .mapped import is_own, mapped_zeros
from .memory import Heap, Hidden, Pool
from .queue import Queue

MASK = "STACKGRAD_VULKAN_MASK"
"""Names of features, with commas between."""

GROUPS = {True: 32, False: 4096}
"""Most groups of a task, by whether the device is a CPU: 4,096 groups of 64 threads fill any GPU."""

CAPABILITIES = {
    "Float64": "float64",
    "Int8": "int8",
    "Int16": "int16",
    "Int64Atomics": "int64_atomics",
    "StorageBuffer8BitAccess": "int8",
    "StorageBuffer16BitAccess": "int16",
}
"""The feature of a device that lets a module declare a capability."""


def most_threads(device: Device) -> int:
    """Of a task."""
    return GROUPS[device.card.is_cpu] * LOCAL_SIZE


_TYPES = {"Float64": ("f64",), "Int8": ("i8", "u8", "u1"), "Int16": ("i16", "u16", "f16")}


def _needs(stmt: Stmt, capability: str) -> bool:
    """Whether a statement makes a value for which a module declares the capability."""
    types = _TYPES.get(capability, ())
    return any(str(value.type) in types for value in results(stmt))


class Opened:
    """A device that is open, and what belongs to it. pool: of what launches borrow that do not use arrays in place."""

    def __init__(self, masked: tuple[str, ...] = ()) -> None:
        self.device = Device(masked=masked)
        self.queue = Queue(self.device)
        self.pool = Pool(self.device)
        self.heap: DeviceHeap | Heap = Heap(self.device)
        if self.device.addressed:
            self.heap = DeviceHeap(Hidden(self.device, lambda: self.queue.finish()))
        self.access = HostAccess(self.queue)

    def reset(self) -> None:
        """Wait, and give all adstack memory and idle buffers back; errors that nobody waited for are dropped."""
        self.queue.close()
        with self.device.lock:
            self.heap.reset()
            self.pool.clear()
        self.queue.arena.trim()


class VulkanBackend:
    """Kernels on a Vulkan device.

    masked: features that are not used even where the device has them, so that each way around one runs on any machine;
    None for those that the variable MASK names.
    """

    name = "vulkan"

    def __init__(self, masked: tuple[str, ...] | None = None) -> None:
        given = os.environ.get(MASK, "") if masked is None else ",".join(masked)
        self.masked = tuple(name.strip() for name in given.split(",") if name.strip())
        self._lock = threading.RLock()
        self._opened: Opened | None = None

    @property
    def opened(self) -> Opened:
        """The device and its queue, opened when they are first asked for. Raises Absent, DeviceError."""
        with self._lock:
            if self._opened is None or self._opened.device.process != os.getpid():
                self._opened = Opened(self.masked)
            return self._opened

    @property
    def device(self) -> Device:
        """The device. Raises what `opened` raises."""
        return self.opened.device

    def probe(self) -> Probe:
        """Available where a device opens."""
        try:
            card = self.device.card
        except Absent as absent:
            return Probe(False, reason=absent.reason, cure=absent.cure)
        except (StackgradError, OSError) as problem:
            return Probe(False, reason=f"no Vulkan device opens: {problem}", cure="use the cpu backend")
        return Probe(True, version=f"Vulkan {card.version}, {card.name}")

    @property
    def features(self) -> Features:
        """What the generator may use."""
        return replace(self.device.card.features, shared_errors=self.device.addressed, lists=True)

    def compile(self, kernel: Kernel, options: Options) -> VulkanExecutable | DescriptorExecutable:
        """Generate SPIR-V and make pipelines. Raises Unsupported for declared limits and for what the device lacks."""
        opened, features = self.opened, self.features
        shaders = generate(kernel, options, features)
        lacking = [c for c in shaders.capabilities if c in CAPABILITIES and not getattr(features, CAPABILITIES[c])]
        if lacking:
            raise self._refused(kernel, lacking)
        try:
            return self._loaded(opened, kernel, shaders, options)
        except DeviceError as problem:
            raise DeviceError(f"kernel {kernel.name}: {problem}") from problem

    def _loaded(
        self, opened: Opened, kernel: Kernel, shaders: Shaders, options: Options
    ) -> VulkanExecutable | DescriptorExecutable:
        """What launches the shaders. Raises DeviceError."""
        most = most_threads(opened.device)
        if isinstance(opened.heap, Heap):
            return DescriptorExecutable(kernel, shaders, opened.device, opened.pool, opened.heap, most)
        return VulkanExecutable(kernel, shaders, opened.queue, opened.heap, options, most)

    def _refused(self, kernel: Kernel, lacking: list[str]) -> Unsupported:
        """At the first statement that makes what the device cannot hold."""
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

    @property
    def counters(self) -> Counters:
        """What was waited for and copied to the host since the device was opened."""
        return self.opened.queue.counters

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Memory of an array that kernels use in place. Raises DeviceError."""
        return mapped_zeros(self.opened.queue, shape, dtype)

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """Memory of other libraries is CUDA's. Raises ValueError."""
        raise ValueError("it is memory of CUDA, which Vulkan does not address")

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """Arrays here have no `__cuda_array_interface__`. Raises AttributeError."""
        raise AttributeError("__cuda_array_interface__: memory of Vulkan is not CUDA's")

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """A copy behind all launches, that kernels use in place."""
        return self.opened.access.duplicate(array)

    def is_own(self, array: np.ndarray) -> bool:
        """Whether kernels use the array in place."""
        return self._opened is not None and is_own(array, self._opened.queue)

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """An element as a Python number."""
        return self.opened.access.item(array, place)

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array."""
        return self.opened.access.fetch(array)

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """`array[place] = value`, of the array's type."""
        self.opened.access.assign(array, place, value)

    def share(self, array: np.ndarray) -> None:
        """From now on others may touch the memory without asking."""
        self.opened.access.share(array)

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number."""
        self.opened.access.fill(array, value)

    def wait(self) -> None:
        """For all launches, if any may be in flight. Raises what went wrong on the device."""
        if self._opened is not None:
            self._opened.queue.settle()

    def sync(self) -> None:
        """For everything that the device has to do. Raises what went wrong there."""
        if self._opened is not None:
            self._opened.queue.wait()

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight:
        """A row for each thread: what the policy gives, as far as iterations are counted."""
        device, features = self.device, self.features
        if not kernel.tasks[task].is_parallel:
            return Flight(1)
        kernel, layout = layout_of(kernel, options, features)
        limits = policy.description(device)
        found = policy.dispatches(kernel, layout, sizes, sizes.iterations, limits, most_threads(device))
        return Flight(found[task].rows)

    def most_bytes(self) -> tuple[int, str]:
        """(bytes that the adstacks of a launch can have, who says so)."""
        return self.opened.heap.most_bytes()

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Adstack memory by slab: bytes held now, and the most since the last reset."""
        if self._opened is None:
            return {slab: {"current": 0, "peak": 0} for slab in SLABS}
        return self._opened.heap.report()

    def reset(self) -> None:
        """Wait, and give all adstack memory and idle buffers back; errors that nobody waited for are dropped."""
        if self._opened is not None and self._opened.device.process == os.getpid():
            self._opened.reset()
