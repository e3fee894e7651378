"""A kernel on a device without buffer addresses: launches one at a time, on copies of all arrays.

A launch is synchronous: arrays are copied to the device, the shaders of all tasks run in one submission, and what the
kernel writes is copied back. Errors are raised by the launch itself, with the content that memory then has.
"""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from weakref import finalize

from ...compiler.errors import DeviceError, StackgradError
from ...compiler.ir.nodes import Kernel
from ..base import Arrays, Draws, Scalars, Sizes
from ..cpu.block import Block
from ..cpu.report import exception
from ..llvm.layout import written
from ..llvm.stack_sizes import capacity
from ..spirv.shaders import LOCAL_SIZE, PROBE, Shaders
from . import stacks
from .counts import iterations
from .device import Device
from .executable import LOOPS
from .memory import Buffer, Heap, Pool
from .staging import Staging
from .submission import Dispatch, Submission


def _give_back(submission: Submission, pool: Pool, own: Buffer) -> None:
    """What an executable held."""
    submission.destroy()
    if submission.device.process == os.getpid():
        pool.give(own)


@dataclass
class StagedExecutable:
    """A compiled kernel. most: threads of a task. growths: how often a launch made the adstack heap larger."""

    kernel: Kernel
    shaders: Shaders
    device: Device
    pool: Pool
    heap: Heap
    most: int
    growths: int = 0
    _written: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._written = written(self.shaders.kernel)
        self._block = Block(self.shaders.layout, self.kernel.name, self._written)
        entries = [name for name, _ in self.shaders.entries]
        self._submission = Submission(self.device, *self.device.pipelines(self.shaders.code, entries))
        size, tail = self.shaders.layout.size, self.shaders.tail
        self._own = self.pool.take(size + len(tail))
        self._own.view[size : size + len(tail)] = tail
        finalize(self, _give_back, self._submission, self.pool, self._own).atexit = False

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute once, arrays in place.

        Raises KernelTypeError for arguments that do not fit and DeviceError for memory that cannot be had, both before
        anything runs; OutOfBounds, KernelAssertionError, DivisionByZero and AdstackOverflow afterwards.
        """
        layout, block = self.shaders.layout, self._block
        with self.device.lock:
            if layout.temps:
                begin = layout.temps_at
                block.view[begin : begin + 8 * len(layout.temps)] = bytes(8 * len(layout.temps))
            block.bind(arrays, scalars, draws)
            block.put(layout.request_at, PROBE)
            threads = self._threads(arrays, scalars)
            if layout.stacks:
                threads = self._place_stacks(block, sizes, threads)
            self._run_staged(Staging(self.pool, {name: arrays[name] for name in layout.arrays}), threads)
            if block.word(layout.error_at):
                raise self._error(block, sizes)

    def _run_staged(self, staged: Staging, threads: dict[int, int]) -> None:
        layout, block, own = self.shaders.layout, self._block, self._own
        try:
            for name, array in layout.arrays.items():
                block.put(array.address_at, staged.address(name))
            staged.copy_in()
            own.view[: layout.size] = block.view
            self._submission.run(own.address, self._dispatches(threads))
            block.view[:] = own.view[: layout.size]
            for name in layout.arrays:
                if name in self._written:
                    staged.copy_out(name)
        finally:
            staged.release()

    def _threads(self, arrays: Arrays, scalars: Scalars) -> dict[int, int]:
        """Threads of each parallel task: whole groups, for the iterations it has, as far as they are known."""
        found, most = {}, self.most
        for index, task in enumerate(self.shaders.kernel.tasks):
            if task.is_parallel:
                count = iterations(task, arrays, scalars)
                found[index] = most if count is None else min(most, -(-count // LOCAL_SIZE) * LOCAL_SIZE)
        return found

    def _place_stacks(self, block: Block, sizes: Sizes, threads: dict[int, int]) -> dict[int, int]:
        """Reserve memory and write places into the block; gives threads, of which rows may allow fewer."""
        layout = self.shaders.layout
        rows = {task: threads.get(task, 1) for task, _ in layout.rows}
        found, grew = stacks.reserve(self.shaders.kernel, layout, sizes, rows, self.heap)
        self.growths += grew
        for at, word in (*found.words, *stacks.slab_words(layout, self.heap.base)):
            block.put(at, word)
        return threads | {task: k for task, k in found.threads.items() if task in threads}

    def _dispatches(self, threads: dict[int, int]) -> list[Dispatch]:
        """Entries and groups, without tasks that have no iterations."""
        groups = ((name, 1 if task is None else threads[task] // LOCAL_SIZE) for name, task in self.shaders.entries)
        return [(name, count) for name, count in groups if count]

    def _error(self, block: Block, sizes: Sizes) -> StackgradError:
        record = block.take_error()
        if self.shaders.sites[record[0]].kind == "loops":
            return DeviceError(LOOPS.format(self.kernel.name, self.shaders.sites[record[0]].task))
        published = [(s, capacity(s, sizes)) for s in self.shaders.layout.stacks]
        return exception(self.shaders.kernel, self.shaders.sites, record, published)


