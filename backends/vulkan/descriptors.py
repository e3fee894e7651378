"""This module runs kernels on devices without buffer addresses, with storage buffers bound by descriptors.

A launch is synchronous: arrays are copied to the device, the shaders of all tasks run in one submission, and the arrays
that the kernel writes are copied back. The launch itself raises errors; memory then holds what was written so far.

A shader sees `PhysicalDevice.reach` bytes of a buffer. A larger array is refused. Adstacks that need more are split: a
task is dispatched in parts, side by side, each with as many threads as have rows in one window of each slab, and with a
descriptor set of its own. Rows count from 0 in each window, iterations from the number of the first thread of the part.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from weakref import finalize

import numpy as np

from ...compiler.errors import StackgradError
from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Draws, Scalars, Sizes
from ..codegen.layout import written_names
from ..codegen.prints import BYTES, NOTHING, PrintBuffer
from ..device import stacks
from ..device.error_reader import Explain
from ..device.policy import TaskGeometry
from ..heap import HeapRefusal
from ..host.block import ArgumentBlock
from ..spirv.bindings import BLOCK, Bindings
from ..spirv.shaders import LOCAL_SIZE, PROBE, Shaders, local_size
from . import policy
from .counts import iterations
from .device import VulkanDevice
from .error_reader import ShaderErrorReader
from .memory import Buffer, BufferPool, VulkanHeap
from .physical_devices import PhysicalDevice
from .recorded_commands import RecordedCommands, RecordedDispatch
from .windows import BufferWindow, Windows


@dataclass(frozen=True)
class WindowSplit:
    """Represent how the adstacks of a launch are split into windows, one for each part of the threads.

    Attributes:
        plan: placement of the adstacks of one part
        windows: bytes of a window, by slab
        parts: greatest number of windows of any slab
    """

    plan: stacks.StackPlan
    windows: Mapping[str, int]
    parts: int

    @property
    def rows(self) -> Mapping[int, int]:
        """Return, for each task, the number of its threads in one part of the launch."""
        return {task: one.rows for task, one in self.plan.dispatches.items()}

    @property
    def needs(self) -> dict[str, int]:
        """Return the total bytes of all windows, by slab."""
        return {slab: size * self.parts for slab, size in self.windows.items()}


def split(
    placement: stacks.StackPlacement, sizes: Sizes, wanted: Mapping[int, TaskGeometry], card: PhysicalDevice
) -> WindowSplit:
    """Return how the threads of tasks with adstacks are divided over windows of the adstack heap.

    Args:
        placement: placement of the kernel
        sizes: capacities of the stacks
        wanted: how each task with stacks runs
        card: physical device, whose limits decide the size of a window

    Raises:
        DeviceError: if the rows of a group of threads fit in no window
    """
    groups = {task: TaskGeometry(min(LOCAL_SIZE, one.rows)) for task, one in wanted.items()}
    plan = stacks.plan(placement.layout, sizes, groups)
    parts, reach = {}, card.reach // card.alignment * card.alignment
    for task, group in groups.items():
        rows, most = wanted[task].rows, max((need for (of, _), need in plan.by_task.items() if of == task), default=0)
        if most > reach:
            raise placement.refusal(plan, _no_place(most, card))
        parts[task] = TaskGeometry(rows if not most else min(rows, reach // most * group.rows))
    plan = stacks.plan(placement.layout, sizes, parts)
    windows = {slab: -(-need // card.alignment) * card.alignment for slab, need in plan.needs.items()}
    count = max((-(-one.rows // parts[task].rows) for task, one in wanted.items() if one.rows), default=1)
    return WindowSplit(plan, windows, count)


def _no_place(most: int, card: PhysicalDevice) -> str:
    """Return a text that says why the adstacks of one workgroup do not fit into any window."""
    return (
        f"the adstacks of one group of threads need {most} bytes, and shaders of {card.name} without buffer addresses "
        f"reach {card.reach} bytes of a storage buffer"
    )


def reserve(
    placement: stacks.StackPlacement, sizes: Sizes, wanted: Mapping[int, TaskGeometry], heap: VulkanHeap
) -> tuple[WindowSplit, dict[int, int]]:
    """Reserve adstack memory, halving threads while memory is short; return the windows and the threads by task.

    Returns:
        The split, and the threads by task.

    Raises:
        DeviceError: with the stack that needs most, if there is no memory for one group of threads
    """
    while True:
        found = split(placement, sizes, wanted, heap.device.card)
        try:
            placement.growths += heap.reserve(found.needs)
            return found, {task: one.rows for task, one in wanted.items()}
        except HeapRefusal as problem:
            fewer = {task: placement.halve(one) for task, one in wanted.items()}
            if fewer == wanted:
                raise placement.refusal(found.plan, str(problem)) from problem
            wanted = fewer


class PrintStaging:
    """Hold the buffer into which a kernel prints on a device without buffer addresses, and read it after a launch.

    Attributes:
        binding: number of the storage buffer through which shaders print
        buffer: memory of the records
        prints: reader of the records
        number: number of the kernel in its records
    """

    def __init__(self, binding: int, shaders: Shaders, pool: BufferPool) -> None:
        self.binding, self.buffer = binding, pool.take(BYTES)
        address: int = np.frombuffer(self.buffer.view, np.uint8).__array_interface__["data"][0]
        self.prints = PrintBuffer(address)
        self.number = self.prints.claim(shaders.kernel, shaders.sites)


def _give_back(recording: RecordedCommands, pool: BufferPool, own: list[Buffer], lists: list[Buffer]) -> None:
    """Free the memory of a deleted executable, unless the device is lost and may still use the memory."""
    recording.destroy()
    if recording.device.process == os.getpid() and not recording.device.lost:
        for buffer in (*own, *lists):
            pool.give(buffer)


@dataclass
class DescriptorExecutable:
    """Represent a compiled kernel of a device without buffer addresses.

    Attributes:
        kernel: kernel that was compiled
        shaders: shaders of the kernel, with layout and sites
        device: Vulkan device that runs them
        pool: buffers for copies
        heap: memory of adstacks
        most: greatest number of threads of a task
    """

    kernel: Kernel
    shaders: Shaders
    device: VulkanDevice
    pool: BufferPool
    heap: VulkanHeap
    most: int
    _written: set[str] = field(init=False)

    def __post_init__(self) -> None:
        kernel, layout = self.shaders.kernel, self.shaders.layout
        self._reader = ShaderErrorReader(kernel, self.shaders.sites, layout.stacks)
        self._placement = policy.place(kernel, layout, policy.description(self.device), self.most)
        self._written = written_names(kernel)
        self._block = ArgumentBlock(self.shaders.layout, self.kernel.name, self._written)
        entries = [name for name, _ in self.shaders.entries]
        self._recording = RecordedCommands(self.device, self.shaders.code, entries, self._bindings.count)
        size, tail = self.shaders.layout.size, self.shaders.tail
        self._own = self.pool.take(size + len(tail))
        self._own.view[size : size + len(tail)] = tail
        self._lists: list[Buffer] = []
        self._listed: dict[int, int] = {}
        held, binding = [self._own], self._bindings.prints
        self._printer = None if binding is None else PrintStaging(binding, self.shaders, self.pool)
        if self._printer is not None:
            held.append(self._printer.buffer)
        finalize(self, _give_back, self._recording, self.pool, held, self._lists).atexit = False

    @property
    def _bindings(self) -> Bindings:
        """Return the binding number of each array, slab and other memory that the kernel's shaders access."""
        found = self.shaders.bindings
        assert found is not None, "shaders that reach memory by address"
        return found

    @property
    def growths(self) -> int:
        """Return the number of launches that made the adstack heap larger."""
        return self._placement.growths

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute the kernel once, and update the arrays in place.

        Raises:
            KernelTypeError: for arguments that do not fit, before anything runs
            DeviceError: for memory that cannot be had or reached, before anything runs
            OutOfBounds, KernelAssertionError, DivisionByZero, AdstackOverflow: for a trap in the kernel
        """
        with self.device.lock:
            error = self._run(arrays, scalars, sizes, draws)
            text = NOTHING if self._printer is None else self._printer.prints.take()
        try:
            text.show()
        finally:
            if error is not None:
                raise error

    def _run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> StackgradError | None:
        """Launch the kernel, wait, and return the error that the launch recorded, or None if it recorded none."""
        layout, block = self.shaders.layout, self._block
        if layout.temps:
            begin = layout.temps_at
            block.view[begin : begin + 8 * len(layout.temps)] = bytes(8 * len(layout.temps))
        block.bind(arrays, scalars, draws)
        block.put(layout.request_at, PROBE)
        if self._printer is not None:
            block.put(layout.printer_at, self._printer.number)
            block.put(layout.first_print_at, 0)
        threads, split = self._threads(arrays, scalars), None
        selecting = dict(threads)
        if layout.stacks:
            threads, split = self._place_stacks(arrays, scalars, sizes, threads)
        steps = self._steps(threads, selecting, split)
        self._run_staged({name: arrays[name] for name in layout.arrays}, steps, split)
        self._reader.published = sizes
        return self._reader(block.take_error()) if block.word(layout.error_at) else None

    def _run_staged(self, arrays: Arrays, steps: list[list[RecordedDispatch]], parts: WindowSplit | None) -> None:
        """Copy arrays to the device, run the steps of the launch, and copy the written arrays back."""
        layout, block, own = self.shaders.layout, self._block, self._own
        staged = Windows(self.pool, self.device.card, arrays, self._bindings.arrays)
        try:
            for name, array in layout.arrays.items():
                block.put(array.address_at, staged.address(name))
            staged.copy_in()
            own.view[: layout.size] = block.view
            self._recording.run(self._sets(staged.windows, parts), steps)
            block.view[:] = own.view[: layout.size]
            for name in layout.arrays:
                if name in self._written:
                    staged.copy_out(name)
        finally:
            if not self.device.lost:
                staged.release()

    def _threads(self, arrays: Arrays, scalars: Scalars) -> dict[int, int]:
        """Return the number of threads of each parallel task: its iterations in whole workgroups, or the maximum.

        The maximum stands for iterations that the host cannot count.
        """
        found = {}
        for index, task in enumerate(self.shaders.kernel.tasks):
            if task.is_parallel:
                count = iterations(task, arrays, scalars)
                size = local_size(task)
                most = self.most // size * size
                found[index] = most if count is None else min(most, -(-count // size) * size)
        return found

    def _place_stacks(
        self, arrays: Arrays, scalars: Scalars, sizes: Sizes, threads: dict[int, int]
    ) -> tuple[dict[int, int], WindowSplit]:
        """Reserve adstack memory, write its layout into the block, and return the threads by task, and the windows."""
        layout, block, placement = self.shaders.layout, self._block, self._placement
        sizes = replace(sizes, iterations=placement.iterations(sizes, arrays, scalars))
        wanted = {
            task: replace(one, rows=min(threads.get(task, 1), one.rows))
            for task, one in placement.dispatches(sizes).items()
        }
        found, allowed = reserve(placement, sizes, wanted, self.heap)
        for at, word in (*found.plan.words, *((at, 0) for at in layout.slabs.values())):
            block.put(at, word)
        self._place_lists({task: one.listed for task, one in wanted.items()})
        return threads | {task: k for task, k in allowed.items() if task in threads}, found

    def _place_lists(self, rooms: Mapping[int, int]) -> None:
        """Place the iteration lists of all tasks at the start of one buffer, which one task at a time uses."""
        layout, block, most = self.shaders.layout, self._block, self.device.card.reach // stacks.ENTRY
        self._listed = {task: rooms[task] if rooms[task] <= most else 0 for task in layout.list_at}
        for task, room in self._listed.items():
            for at, word in ((layout.list_at, 0), (layout.room_at, room), (layout.length_at, 0)):
                block.put(at[task], word)
        need = max(self._listed.values(), default=0) * stacks.ENTRY
        if self._bindings.lists is not None and (not self._lists or self._lists[0].size < need):
            # Take the new buffer before the old one is given back: if this fails, launches go on with the old one.
            wider = self.pool.take(max(need, 1))
            for old in self._lists:
                self.pool.give(old)
            self._lists[:] = [wider]

    def _sets(self, arrays: Mapping[int, BufferWindow], parts: WindowSplit | None) -> list[dict[int, BufferWindow]]:
        """Return the descriptor sets of a launch, one for each part, as mappings from binding to buffer window."""
        common = {BLOCK: BufferWindow(self._own, 0, self._own.size), **arrays}
        if self._printer is not None:
            common[self._printer.binding] = BufferWindow(self._printer.buffer, 0, BYTES)
        if self._bindings.lists is not None:
            room = min(self._lists[0].size, self.device.card.reach)
            common[self._bindings.lists] = BufferWindow(self._lists[0], 0, room)
        out = []
        for part in range(parts.parts if parts else 1):
            shown = dict(common)
            for slab, binding in self._bindings.slabs.items():
                buffer, size = self.heap.buffer(slab), parts.windows.get(slab, 0) if parts else 0
                shown[binding] = BufferWindow(buffer, part * size, size or min(buffer.size, self.device.card.reach))
            out.append(shown)
        return out

    def _steps(
        self, threads: Mapping[int, int], selecting: Mapping[int, int], parts: WindowSplit | None
    ) -> list[list[RecordedDispatch]]:
        """Return the steps of a launch in order; each is a list of dispatches that may run side by side.

        Tasks without iterations have no step.

        Args:
            threads: threads of each parallel task
            selecting: threads that make the list of a task
            parts: how threads are spread over windows, if the kernel has adstacks
        """
        out = []
        for name, task in self.shaders.entries:
            if task is None:
                out.append([RecordedDispatch(name, 1, 0, 0, 1)])
            elif name.startswith("select"):
                if self._listed.get(task) and selecting[task]:
                    out.append(list(_in_parts(name, selecting[task], selecting[task], LOCAL_SIZE)))
            elif threads[task]:
                rows = parts.rows.get(task) if parts else None
                size = local_size(self.shaders.kernel.tasks[task])
                out.append(list(_in_parts(name, threads[task], rows or threads[task], size)))
        return out

    def on_overflow(self, explain: Explain) -> None:
        """Set the callback that adds explanations to the error message of an adstack overflow in this kernel.

        `explain` returns this function, or None if its owner was deleted.
        """
        self._reader.explain = explain


def _in_parts(name: str, threads: int, rows: int, size: int) -> list[RecordedDispatch]:
    """Return dispatches that split an entry point's `threads` threads into parts of at most `rows` threads.

    `size` is the number of threads of a workgroup.
    """
    firsts = range(0, threads, rows)
    return [RecordedDispatch(name, min(rows, threads - f) // size, k, f, threads) for k, f in enumerate(firsts)]
