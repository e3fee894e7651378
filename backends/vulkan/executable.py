"""This module holds the executable of a kernel on a Vulkan device: pipelines, ring, host code and blocks.

Launches on mapped arrays are not waited for; an error on the device surfaces at the next wait (queue.py). A launch on
external arrays works on copies, so it is over, and has raised its errors, when `run` returns. The same holds for a
launch on arrays that other code may touch without asking, and for a launch of a debug build.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from weakref import finalize

from ...compiler.errors import AdstackOverflow, DeviceError, StackgradError
from ...compiler.ir.cached import cached_property
from ...compiler.ir.nodes import Kernel
from ..base import Arrays, Draws, Options, Scalars, Sizes
from ..codegen.layout import written_names
from ..codegen.prints import is_printing
from ..codegen.stack_sizes import stack_capacity
from ..device.heap import DeviceHeap
from ..host.jit import NativeCode
from ..host.report import exception
from ..llvm.errors import FAILED
from ..spirv.shaders import PROBE, Shaders
from . import policy, stacks
from .block import VulkanBlock, block_layout
from .counts import known_iterations
from .host_code import host_code, needed_entries
from .queue import Queue, Record
from .ring import SLOTS, Ring, groups_at
from .task_times import TaskTimes, valid_bits

_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
"""The type of host code, called with the interpreter's lock held: nothing else uses the queue meanwhile."""

_EFFORT = 0
"""Effort of the optimizer for host code, which consists of straight calls."""

DEBUG_WAITS = True
"""If True, launches of debug builds are waited for, so that the launch that made an error raises it.

Tests of errors that surface late set it to False.
"""

LOOPS = (
    "kernel {}, task {}: the results are void, because this driver (llvmpipe) leaves the loops of a shader after "
    "65,535 trips in all; cure: fewer steps of the loop per launch, or the cpu backend"
)


@dataclass
class ErrorReader:
    """Convert the error records of one kernel to exceptions.

    Attributes:
        shaders: shaders of the kernel
        distrust: called at an overflow, so that no ready launch relies on the published sizes
        published: the sizes of the last launch
        explain: returns a function that adds what it knows to an overflow, or None
    """

    shaders: Shaders
    distrust: Callable[[], None]
    published: Sizes = field(default_factory=Sizes)
    explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None] = lambda: None

    def __call__(self, record: Record) -> StackgradError:
        """Return the exception that an error record describes."""
        shaders, site = self.shaders, self.shaders.sites[record[0]]
        if site.kind == "loops":
            return DeviceError(LOOPS.format(shaders.kernel.name, site.task))
        known = [(stack, stack_capacity(stack, self.published)) for stack in shaders.layout.stacks]
        found = exception(shaders.kernel, shaders.sites, record, known)
        if isinstance(found, AdstackOverflow):
            self.distrust()
            explain = self.explain()
            return found if explain is None else explain(found)
        return found


class VulkanExecutable:
    """Represent a compiled kernel; several Python threads may run it at the same time.

    Attributes:
        kernel: the kernel
        shaders: its shaders
        options: options of the build
        queue: queue of the device
        heap: memory of adstacks
        most: greatest number of threads of a task
        layout: layout of a whole block
        growths: number of launches that made the adstack heap larger
    """

    def __init__(
        self, kernel: Kernel, shaders: Shaders, queue: Queue, heap: DeviceHeap, options: Options, most: int
    ) -> None:
        self.kernel, self.shaders, self.options = kernel, shaders, options
        self.queue, self.heap, self.most = queue, heap, most
        self.layout = block_layout(shaders.layout)
        self.growths = 0
        self._written = written_names(shaders.kernel)
        self._idle: list[VulkanBlock] = []
        self._reader = ErrorReader(shaders, heap.renew)
        self._entries = needed_entries(shaders.kernel, shaders.entries, options)
        self._load()
        counts_at = groups_at(shaders.layout.size, shaders.tail)
        code = host_code(shaders.kernel, self.layout, self._entries, counts_at, SLOTS, most, options, shaders.summed)
        self._described = policy.description(queue.device)
        self._host = NativeCode(code, _EFFORT)
        self._launch: Callable[[int], int] = _LAUNCH(self._host.address)

    def _load(self) -> None:
        """Create the pipelines and the ring of the kernel, and claim its number ranges for error and print records."""
        queue, shaders, names = self.queue, self.shaders, [name for name, _ in self._entries]
        device = queue.device
        layout, pipelines = device.pipelines(shaders.code, names)
        self._base = base = queue.claim(len(shaders.sites), self._reader)
        self._printer = printer = queue.prints.claim(shaders.kernel, shaders.sites) if self.calls_back else 0
        self._starting = queue.prints.lock if printer else nullcontext()

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

    # -- launching ------------------------------------------------------------------------------------------

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Launch the kernel once.

        Foreign arrays are written when the call returns, mapped arrays when the device is waited for. An error on the
        device is raised at the next wait, which is this call if an array is foreign or the build is a debug build.

        Raises:
            KernelTypeError: for arguments that do not fit, before anything runs
            DeviceError: for memory that cannot be had or a driver that refuses, before anything runs
        """
        block = self._claim_block()
        try:
            self._run_bound(block, arrays, scalars, sizes, draws)
        finally:
            self._idle.append(block)

    def _claim_block(self) -> VulkanBlock:
        """Return an idle block, or a new one."""
        self.queue.tidy()
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_block()

    def _run_bound(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Bind an argument block to the arguments and launch it. Wait for its end if arrays are external or shared."""
        block.bind(arrays, scalars, draws)
        if block.foreign:
            with block.staged():
                self._run(block, arrays, scalars, sizes)
                self.queue.finish()
            self.queue.wait()
        else:
            self._run(block, arrays, scalars, sizes)
            if block.is_shared or (self.options.debug and DEBUG_WAITS):
                self.queue.wait()

    def run_timed(
        self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws
    ) -> tuple[float, list[float] | None]:
        """Launch the kernel and wait. Return the seconds waited before, and each task's seconds if known.

        The first number is the time that was spent waiting for earlier launches.

        Returns:
            The seconds waited for earlier launches, and the seconds of each task (None if the device takes no time
                stamps).

        Raises:
            StackgradError: what `run` raises, and an error on the device
        """
        begin = time.perf_counter()
        self.queue.settle()
        aside = time.perf_counter() - begin
        if not valid_bits(self.queue.device):
            self.run(arrays, scalars, sizes, draws)
            self.queue.settle()
            return aside, None
        block = self._claim_block()
        with self._timing:
            laps = self._laps
            block.put(self.layout.driver_at, laps.address)
            slot = laps.next
            try:
                self._run_bound(block, arrays, scalars, sizes, draws)
                self.queue.settle()
                return aside, laps.by_task(slot, len(self.kernel.tasks))
            finally:
                block.put(self.layout.driver_at, self._ring.address)
                self._idle.append(block)

    @cached_property
    def _laps(self) -> TaskTimes:
        """Return the ring whose command buffers have time stamps, created by the first profiled launch."""
        tasks = [int(name.rpartition("_")[2]) for name, _ in self._entries]
        made = TaskTimes(self.queue, *self._pipelines, self.shaders.layout.size, self.shaders.tail, tasks)
        self._rings.append(made)
        return made

    def _run(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> None:
        """Launch a block whose arrays are bound, after its adstacks are placed in the heap."""
        if not self.layout.stacks:
            self._start(block)
            return
        with self.heap.claimed() as heap:
            self._bind_stacks(block, arrays, scalars, sizes, heap)
            self._start(block)

    def _start(self, block: VulkanBlock) -> None:
        """Call the host code with a block. Raise the driver's reason if it refuses the launch."""
        # Machine code also waits for a free slot, but keeps the interpreter's lock meanwhile.
        self.queue.reach(self._ring.busy_until)
        with self._starting:
            if self._launch(block.address) == FAILED:
                self.refuse(block, Sizes())

    def _bind_stacks(
        self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes, heap: DeviceHeap
    ) -> None:
        """Reserve adstack memory and write its addresses and sizes into the block, unless they are there already."""
        self._reader.published = sizes
        counts = known_iterations(self.shaders.kernel, self.layout, sizes, arrays, scalars)
        key = heap.epoch, dict(sizes.capacities), dict(sizes.rows), dict(sizes.totals), counts
        if block.stacks_key == key:
            return
        block.stacks_key = None
        layout = self.layout
        dispatches = policy.dispatches(self.shaders.kernel, layout, sizes, counts, self._described, self.most)
        rows = {task: one.rows for task, one in dispatches.items()}
        rooms = {task: one.listed for task, one in dispatches.items()}
        found, grew = stacks.reserve(self.shaders.kernel, layout, sizes, rows, heap, rooms)
        self.growths += grew
        for at, word in found.words:
            block.put(at, word)
        for task, threads in found.threads.items():
            if task in layout.threads_at:
                block.put(layout.threads_at[task], threads)
        for task, begin in found.lists.items():
            block.put(layout.list_at[task], heap.base("integer", stacks.WIDEST) + begin)
        for at, word in stacks.slab_words(layout, lambda slab: heap.base(slab, stacks.WIDEST)):
            block.put(at, word)
        # Reserving may have changed the epoch of the heap.
        block.stacks_key = heap.epoch, *key[1:]

    @property
    def calls_back(self) -> bool:
        """Return True if the kernel prints, so that only Python may launch it."""
        return is_printing(self.kernel)

    # -- ready launches --------------------------------------------------------------------------------------

    @property
    def address(self) -> int:
        """Return the address of the machine code `launch(block)`, which may be called while the executable lives."""
        return self._host.address

    @property
    def is_bound(self) -> bool:
        """Return True if blocks hold heap addresses, which change when the heap grows."""
        return bool(self.layout.stacks)

    def on_overflow(self, explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None]) -> None:
        """Set the callback that adds explanations to the error message of an adstack overflow in this kernel.

        The function may have died meanwhile; then `explain` returns None.
        """
        self._reader.explain = explain

    def stand(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare an argument block for launches without Python. Return False if each launch still needs Python.

        It raises what `run` raises before anything runs.
        """
        if self.options.debug and DEBUG_WAITS:
            return False
        block.bind(arrays, scalars, Draws())
        if block.foreign or block.is_shared:
            return False
        if self.layout.stacks:
            with self.heap.claimed() as heap:
                if heap is not self.heap:
                    return False
                self._bind_stacks(block, arrays, scalars, sizes, heap)
        self._reader.published = sizes
        return True

    def new_block(self) -> VulkanBlock:
        """Return a new argument block without arguments."""
        block = VulkanBlock(self.layout, self.kernel.name, self._written, self.queue)
        block.put(self.layout.driver_at, self._ring.address)
        block.put(self.layout.error_at, self.queue.record)
        block.put(self.layout.error_at + 8, self._base)
        block.put(self.layout.request_at, PROBE)
        if self._printer:
            block.put(self.layout.print_at, self.queue.prints.on_device)
            block.put(self.layout.printer_at, self._printer)
        return block

    def refuse(self, block: VulkanBlock, sizes: Sizes) -> bool:
        """Raise the error for which the driver refused the launch of a block; never return."""
        raise self.queue.refusal(block.word(self.layout.driver_error_at), f"launch of kernel {self.kernel.name}")
