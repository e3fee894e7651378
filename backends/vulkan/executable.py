"""This module defines the executable of a kernel on a Vulkan device: pipelines, ring, host code, argument blocks."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import finalize

from ...compiler.ir.cached import cached_property
from ...compiler.ir.kernels import Kernel
from ..base import Options, Sizes
from ..device.executable import DeviceExecutable, Seconds
from ..device.heap import DeviceHeap
from ..llvm.errors import FAILED
from ..spirv.shaders import PROBE, Shaders
from . import policy
from .block import VulkanBlock, block_layout
from .error_reader import ShaderErrorReader
from .host_code import host_code, needed_entries
from .queue import Queue
from .ring import SLOTS, Ring, groups_at
from .task_times import TaskTimes, valid_bits

_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
"""The type of host code, called with the interpreter's lock held: nothing else uses the queue meanwhile."""


class VulkanExecutable(DeviceExecutable[VulkanBlock]):
    """Represent a compiled kernel on a Vulkan device.

    Attributes:
        shaders: shaders of the kernel
        queue: queue of the device
    """

    queue: Queue

    def __init__(
        self, kernel: Kernel, shaders: Shaders, queue: Queue, heap: DeviceHeap, options: Options, most: int
    ) -> None:
        """Load the shaders; `most` is the greatest number of threads of a task."""
        layout = block_layout(shaders.layout)
        placement = policy.place(shaders.kernel, layout, policy.description(queue.device), most)
        reader = ShaderErrorReader(shaders.kernel, shaders.sites, layout.stacks, heap.renew)
        super().__init__(kernel, layout, options, queue, heap, placement, reader)
        self.shaders = shaders
        self._entries = needed_entries(shaders.kernel, shaders.entries, options)
        self._load()
        counts_at = groups_at(shaders.layout.size, shaders.tail)
        code = host_code(shaders.kernel, layout, self._entries, counts_at, SLOTS, most, options, shaders.summed)
        self._load_host_code(code, _LAUNCH)

    def _load(self) -> None:
        """Create the pipelines and the ring of the kernel, and claim numbers for its error records and prints."""
        queue, shaders, names = self.queue, self.shaders, [name for name, _ in self._entries]
        device = queue.device
        layout, pipelines = device.pipelines(shaders.code, names)
        self._base = base = queue.claim(len(shaders.sites), self._reader)
        self._printer = printer = queue.prints.claim(shaders.kernel, shaders.sites) if self.calls_back else 0

        self._rings: list[Ring] = []
        rings, self._timing = self._rings, threading.RLock()

        def give_back() -> None:
            for ring in rings:
                ring.release()
            queue.release(base)
            if printer:
                queue.prints.release(printer)
            device.destroy(layout, pipelines)

        try:
            self._pipelines = layout, [pipelines[name] for name in names]
            self._ring = Ring(queue, *self._pipelines, shaders.layout.size, shaders.tail)
        except BaseException:
            give_back()
            raise
        rings.append(self._ring)
        finalize(self, queue.drop, give_back).atexit = False

    def new_block(self) -> VulkanBlock:
        """Return an argument block that holds no ready launch yet."""
        block = VulkanBlock(self.layout, self.kernel.name, self._written, self.queue)
        block.put(self.layout.driver_at, self._ring.address)
        block.put(self.layout.error_at, self.queue.record)
        block.put(self.layout.error_at + 8, self._base)
        block.put(self.layout.request_at, PROBE)
        if self._printer:
            block.put(self.layout.print_at, self.queue.prints.on_device)
            block.put(self.layout.printer_at, self._printer)
        return block

    def _start(self, block: VulkanBlock) -> None:
        """Call the host code with a block; raise the driver's error if the driver refuses the launch."""
        # Machine code also waits for a free slot, but keeps the interpreter's lock meanwhile.
        self.queue.reach(self._ring.busy_until)
        with self._starting:
            if self._launch(block.address) == FAILED:
                self.refuse(block, Sizes())

    def refuse(self, block: VulkanBlock, sizes: Sizes) -> bool:
        """Raise the error for which the driver refused the launch of an argument block; never return."""
        raise self.queue.refusal(block.word(self.layout.driver_error_at), f"launch of kernel {self.kernel.name}")

    @contextmanager
    def _timed(self, block: VulkanBlock) -> Iterator[Seconds]:
        """Measure by time stamps the time of each task in the `with` block; yield a function that returns the times."""
        if not valid_bits(self.queue.device):
            yield lambda: None
            return
        with self._timing:
            ring = self._timing_ring
            block.put(self.layout.driver_at, ring.address)
            slot = ring.next
            try:
                yield lambda: ring.by_task(slot, len(self.kernel.tasks))
            finally:
                block.put(self.layout.driver_at, self._ring.address)

    @cached_property
    def _timing_ring(self) -> TaskTimes:
        """Return the ring for profiled launches, which the first call makes."""
        tasks = [int(name.rpartition("_")[2]) for name, _ in self._entries]
        made = TaskTimes(self.queue, *self._pipelines, self.shaders.layout.size, self.shaders.tail, tasks)
        self._rings.append(made)
        return made
