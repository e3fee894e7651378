"""A kernel on a Vulkan device: its pipelines, its ring, the host code that launches it, blocks to launch with.

Launches on mapped arrays are not waited for; what goes wrong on the device surfaces at the next wait (queue.py). A
launch on foreign arrays works on copies, so it is over, and has raised, when `run` returns; so is one on arrays that
others may touch without asking, and one of a debug build.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from weakref import finalize

from ...compiler.errors import AdstackOverflow, DeviceError, StackgradError
from ...compiler.ir.nodes import Kernel
from ..base import Arrays, Draws, Options, Scalars, Sizes
from ..cpu.jit import NativeCode
from ..cpu.report import exception
from ..cuda.heap import DeviceHeap
from ..llvm.errors import FAILED
from ..llvm.layout import written
from ..llvm.stack_sizes import capacity
from ..prints import is_printing
from ..spirv.shaders import PROBE, Shaders
from . import policy, stacks
from .block import VulkanBlock, laid_out
from .counts import known
from .host_code import host_code, needed
from .laps import Laps, valid_bits
from .queue import Queue, Record
from .ring import SLOTS, Ring, groups_at

_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
"""Called with the interpreter's lock held: nothing else uses the queue meanwhile."""

_EFFORT = 0
"""Of the optimiser for host code, which is straight calls."""

DEBUG_WAITS = True
"""Launches of debug builds are waited for, so that an error is raised by the launch that made it. Tests of what
surfaces late set it to False.
"""

LOOPS = (
    "kernel {}, task {}: the results are void, because this driver (llvmpipe) leaves the loops of a shader after "
    "65,535 trips in all; cure: fewer steps of the loop per launch, or the cpu backend"
)


@dataclass
class Reader:
    """Makes exceptions of error records. published: the sizes of the last launch. explain: refers to what adds to an
    overflow what it knows of it. distrust: called then: nothing stands ready any more for what was published.
    """

    shaders: Shaders
    distrust: Callable[[], None]
    published: Sizes = field(default_factory=Sizes)
    explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None] = lambda: None

    def __call__(self, record: Record) -> StackgradError:
        shaders, site = self.shaders, self.shaders.sites[record[0]]
        if site.kind == "loops":
            return DeviceError(LOOPS.format(shaders.kernel.name, site.task))
        known = [(stack, capacity(stack, self.published)) for stack in shaders.layout.stacks]
        found = exception(shaders.kernel, shaders.sites, record, known)
        if isinstance(found, AdstackOverflow):
            self.distrust()
            explain = self.explain()
            return found if explain is None else explain(found)
        return found


class VulkanExecutable:
    """A compiled kernel. Threads may run it at the same time. most: threads of a task, at most."""

    def __init__(
        self, kernel: Kernel, shaders: Shaders, queue: Queue, heap: DeviceHeap, options: Options, most: int
    ) -> None:
        self.kernel, self.shaders, self.options = kernel, shaders, options
        self.queue, self.heap, self.most = queue, heap, most
        self.layout = laid_out(shaders.layout)
        self.growths = 0
        self._written = written(shaders.kernel)
        self._idle: list[VulkanBlock] = []
        self._reader = Reader(shaders, heap.renew)
        self._entries = needed(shaders.kernel, shaders.entries, options)
        self._load()
        counts_at = groups_at(shaders.layout.size, shaders.tail)
        code = host_code(shaders.kernel, self.layout, self._entries, counts_at, SLOTS, most, options, shaders.summed)
        self._described = policy.description(queue.device)
        self._host = NativeCode(code, _EFFORT)
        self._launch: Callable[[int], int] = _LAUNCH(self._host.address)

    def _load(self) -> None:
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
        """Launch once. Foreign arrays are written when it returns, mapped ones when the device is waited for.

        Raises KernelTypeError for arguments that do not fit and DeviceError for memory that cannot be had or a driver
        that refuses, before anything runs; what goes wrong on the device at the next wait, which is now if an array is
        foreign or the build a debug build.
        """
        block = self._claim_block()
        try:
            self._run_bound(block, arrays, scalars, sizes, draws)
        finally:
            self._idle.append(block)

    def _claim_block(self) -> VulkanBlock:
        self.queue.tidy()
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_block()

    def _run_bound(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
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
        """Launch once and wait, for a profile. Gives the seconds waited for launches before, and those of each task.

        Raises what `run` raises, and what went wrong on the device.
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
    def _laps(self) -> Laps:
        """The ring of profiles."""
        tasks = [int(name.rpartition("_")[2]) for name, _ in self._entries]
        made = Laps(self.queue, *self._pipelines, self.shaders.layout.size, self.shaders.tail, tasks)
        self._rings.append(made)
        return made

    def _run(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> None:
        if not self.layout.stacks:
            self._start(block)
            return
        with self.heap.claimed() as heap:
            self._bind_stacks(block, arrays, scalars, sizes, heap)
            self._start(block)

    def _start(self, block: VulkanBlock) -> None:
        self.queue.reach(self._ring.busy_until)  # machine code waits too, but keeps the interpreter's lock
        with self._starting:
            if self._launch(block.address) == FAILED:
                self.refuse(block, Sizes())

    def _bind_stacks(
        self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes, heap: DeviceHeap
    ) -> None:
        """Reserve memory and write offsets, capacities and bases into the block, unless they stand there already."""
        self._reader.published = sizes
        counts = known(self.shaders.kernel, self.layout, sizes, arrays, scalars)
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
        block.stacks_key = heap.epoch, *key[1:]

    @property
    def calls_back(self) -> bool:
        """Whether launches are made by Python alone: those of a kernel that prints, see `Prints.lock`."""
        return is_printing(self.kernel)

    # -- launches that stand ready --------------------------------------------------------------------------

    @property
    def address(self) -> int:
        """Of the machine code `launch(block)`. It may be called while the executable lives."""
        return self._host.address

    @property
    def is_bound(self) -> bool:
        """Whether blocks hold addresses that may change with the heap's epoch."""
        return bool(self.layout.stacks)

    def on_overflow(self, explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None]) -> None:
        """Let what a reference leads to, if it is alive, add to the overflows of this kernel what it knows of them."""
        self._reader.explain = explain

    def stand(self, block: VulkanBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare a block for native launches. False if that cannot be now; raises what `run` raises before it runs."""
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
        """A block in which no launch stands yet."""
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
        """Raise why a launch was refused."""
        raise self.queue.refusal(block.word(self.layout.driver_error_at), f"launch of kernel {self.kernel.name}")
