"""This module tracks submitted work of a device: its timeline, waits, errors, and memory to be freed later.

Each submission raises a timeline semaphore to the next value, so "everything so far" is one number. Launches are
submitted by machine code alone (host_code.py), with the interpreter's lock held; a thread that waits lets the lock go.

Invariant: code that looks at memory that launches write waits first, and the wait raises errors, so an error surfaces
before anything that it spoiled is seen. Shaders do nothing while an error stands in the record. Memory and code that is
dropped while launches may use it is given back at the next wait, never earlier.
"""

from __future__ import annotations

import atexit
import bisect
import os
import weakref
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...compiler.errors import DeviceError, StackgradError
from ..base import DeviceCounters
from ..codegen.prints import BYTES, PrintBuffer, finish_and_collect
from ..device.error_reader import Record
from ..device.queue import DeviceQueue, Dropped
from ..words import address_of, words
from . import host_code as h
from .arena import DeviceArena
from .device import VulkanDevice, driver_errors, error_text

FORKED = -1000
"""The reason, in place of a code of Vulkan's, why nothing is submitted in a forked process."""

_LOST = -4
_FOREVER = (1 << 64) - 1
_RECORD_BYTES = 24


class Queue(DeviceQueue):
    """Represent the only queue of a device, with its timeline semaphore and its error record.

    Attributes:
        device: Vulkan device that runs the work
        counters: numbers of waits and of copies to the host
        table: words that machine code reads (see host_code.py)
        arena: memory that host and device share
    """

    def __init__(self, device: VulkanDevice) -> None:
        self.device = device
        self.counters = DeviceCounters()
        self.table: array[int] = words(bytes(8 * h.TABLE))
        self.arena = DeviceArena(device, self.table)
        self._make_timeline()
        self._record = self.arena.take(_RECORD_BYTES)
        self._record.view[:_RECORD_BYTES] = bytes(_RECORD_BYTES)
        self._bases: list[int] = [0]
        self._readers: dict[int, Callable[[Record], StackgradError]] = {}
        self._end = 0
        self._trash = []
        self._prints: PrintBuffer | None = None
        _close_with_process(weakref.ref(self))

    def _make_timeline(self) -> None:
        """Create the timeline semaphore and the Vulkan structures that host code submits with it."""
        device, vk, ffi = self.device, self.device.vk, self.device.vk.ffi
        kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE, initialValue=0)
        with driver_errors("making a timeline"):
            self._semaphore = vk.vkCreateSemaphore(device.handle, vk.VkSemaphoreCreateInfo(pNext=kind), None)
        self.semaphores = ffi.new("VkSemaphore[1]", [self._semaphore])
        start = self.table_address
        self.signal = ffi.new("VkTimelineSemaphoreSubmitInfo *")
        self.signal.sType = vk.VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO
        self.signal.signalSemaphoreValueCount = 1
        self.signal.pSignalSemaphoreValues = ffi.cast("uint64_t *", start + 8 * h.VALUE)
        self._waited = ffi.new("VkSemaphoreWaitInfo *")
        self._waited.sType = vk.VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO
        self._waited.semaphoreCount, self._waited.pSemaphores = 1, self.semaphores
        self._waited.pValues = ffi.cast("uint64_t *", start + 8 * h.WANTED)
        table = self.table
        table[h.SUBMIT], table[h.WAIT] = self._function("vkQueueSubmit"), self._function("vkWaitSemaphores")
        table[h.QUEUE], table[h.DEVICE] = number_of(vk, device.queue), number_of(vk, device.handle)
        table[h.WAIT_INFO] = number_of(vk, self._waited)

    def _function(self, name: str) -> int:
        """Return the address of a driver function with this name."""
        vk = self.device.vk
        return number_of(vk, vk.lib.vkGetDeviceProcAddr(self.device.handle, name.encode()))

    @property
    def table_address(self) -> int:
        """Return the address of the queue's table of words, which host code reads."""
        return address_of(self.table)

    # -- waiting --------------------------------------------------------------------------------------------

    @property
    def is_pending(self) -> bool:
        """Return True if launches may be in flight or may have recorded an error that was not raised yet."""
        table = self.table
        return table[h.PENDING] != 0 or table[h.DONE] < table[h.VALUE]

    def reach(self, value: int) -> None:
        """Wait until the timeline has reached this value, or raise DeviceError."""
        device, vk, table = self.device, self.device.vk, self.table
        if table[h.DONE] >= value or table[h.CLOSED] == FORKED:
            return
        try:
            with driver_errors("waiting for the device"):
                info = vk.VkSemaphoreWaitInfo(pSemaphores=[self._semaphore], pValues=[value])
                vk.vkWaitSemaphores(device.handle, info, _FOREVER)
        except DeviceError:
            table[h.CLOSED] = _LOST
            raise
        table[h.DONE] = max(table[h.DONE], value)

    def finish(self) -> None:
        """Wait until the device has done all submitted work. A recorded error is left for `wait` to raise."""
        self.reach(self.table[h.VALUE])

    def wait(self) -> None:
        """Wait for all launches in flight, and raise an error that one of them recorded."""
        # This comes before the wait: a launch that is made meanwhile sets the word again.
        self.table[h.PENDING] = 0
        self.counters.waits += 1
        trash, text = finish_and_collect(self._prints, self._finish)
        error = self._take_error()
        self._give_back(trash)
        try:
            text.show()
        finally:
            if error is not None:
                raise error
        # A stream of the user's may have launched kernels while the text was written to it.
        if text.lines:
            self.finish()

    # -- errors ---------------------------------------------------------------------------------------------

    @property
    def record(self) -> int:
        """Return the device address of the error record."""
        return self._record.on_device

    def claim(self, sites: int, reader: Callable[[Record], StackgradError]) -> int:
        """Reserve a range of site numbers for a kernel, and return its first number.

        Args:
            sites: number of sites of the kernel
            reader: makes an exception of a record
        """
        base = self._end
        self._end += sites + 1
        self._bases.append(base)
        self._readers[base] = reader
        return base

    def release(self, base: int) -> None:
        """Release the range of site numbers that `claim` returned, once no launch uses it."""
        if self._readers.pop(base, None) is not None:
            self._bases.remove(base)

    def _take_error(self) -> StackgradError | None:
        """Return the error in the error record, or None, and clear the record."""
        site, first, second = self._record.view[:_RECORD_BYTES].cast("q")
        if not site:
            return None
        self._record.view[:_RECORD_BYTES] = bytes(_RECORD_BYTES)
        base = self._bases[bisect.bisect_right(self._bases, site - 1) - 1]
        reader = self._readers.get(base)
        return None if reader is None else reader((site - 1 - base, first, second))

    def refusal(self, code: int, doing: str) -> DeviceError:
        """Return the error for a driver code with which a launch was refused."""
        if code == FORKED:
            return DeviceError(
                f"{self.device.card.name} was opened by the process that this one was forked from; cure: compile the "
                "kernel in this process, or start it by `spawn`"
            )
        if code == _LOST:
            self.table[h.CLOSED] = code
        known = self.device.vk.exception_codes.get(code)
        return DeviceError(f"Vulkan, {doing}: {error_text(known.__name__) if known else code}")

    # -- what is dropped ------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Free dropped memory if that needs no wait, or if much of it has accumulated."""
        if not self._trash:
            return
        if self._has_much_trash or not self.is_pending:
            trash, text = finish_and_collect(self._prints, self._finish)
            # The kernel of the error may be among the trash, so the next wait must raise the error first.
            if self._record.view[0:4] != bytes(4):
                self._trash += trash
            else:
                self._give_back(trash)
            text.show()

    def _finish(self) -> list[Dropped]:
        """Wait for all work, and return the scheduled calls that free memory no longer in use."""
        trash, self._trash = self._trash, []
        self.finish()
        return trash

    def _give_back(self, trash: list[Dropped]) -> None:
        """Call the functions that free dropped objects, but not in a fork of the process that opened the device."""
        if self.device.process == os.getpid():
            for give_back, _ in trash:
                give_back()

    def close(self) -> None:
        """Wait, free dropped memory, clear a recorded error, and show pending prints."""
        self.table[h.PENDING] = 0
        trash, text = finish_and_collect(self._prints, self._finish)
        self._give_back(trash)
        self._record.view[:_RECORD_BYTES] = bytes(_RECORD_BYTES)
        text.show()

    @property
    def prints(self) -> PrintBuffer:
        """Return the print buffer of the device, created when the first kernel that prints is compiled."""
        if self._prints is None:
            piece = self.arena.take(BYTES)
            self._prints = PrintBuffer(piece.address, piece.on_device)
        return self._prints


def number_of(vk: Any, thing: Any) -> int:
    """Return the integer value of a driver handle or pointer."""
    return int(vk.ffi.cast("intptr_t", thing))


def _close_with_process(held: weakref.ref[Queue]) -> None:
    """Register callbacks: at process exit wait and show prints, and after a fork close the child's queue.

    A forked process submits nothing and waits for nothing.
    """

    def end() -> None:
        queue = held()
        if queue is not None and queue.device.process == os.getpid():
            # If the device is lost, there is nothing to wait for.
            with suppress(DeviceError):
                finish_and_collect(queue._prints, queue.finish)[1].show()

    def part() -> None:
        queue = held()
        if queue is not None:
            table = queue.table
            table[h.CLOSED], table[h.PENDING], table[h.DONE] = FORKED, 0, table[h.VALUE]

    atexit.register(end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=part)
