"""This module copies large arrays to the host through memory that the host reads fast.

The host does not cache memory of a card that it sees: each read goes over the bus. So the device first copies the array
into a buffer in memory of the host, part by part. Copies are submitted as launches are, by machine code of a kernel
without tasks, so they keep the rule that the queue has one user at a time (host_code.py).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.ir.cached import cached_property
from ...compiler.ir.kernels import Kernel
from ..base import Options
from ..codegen.layout import lay_out
from ..host.jit import NativeCode
from ..llvm.errors import FAILED
from .arena import ArenaRegion
from .block import VulkanBlock, block_layout
from .device import driver_errors
from .host_code import host_code
from .memory import Buffer
from .queue import Queue
from .ring import SLOTS, Ring

LEAST = 1 << 16
"""Least number of bytes for which a submission pays."""

PART = 1 << 23
"""Bytes that are copied at once."""

_LAUNCH = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class _Copies(Ring):
    """Represent a ring for copies from GPU buffers to the host; each copy records an entry's command buffer anew."""

    def _record(self, number: int, offset: int, layout: Any, pipelines: Sequence[Any]) -> None:
        """Do nothing, because each copy records its own commands just before it is submitted."""

    def record(self, source: Buffer, offset: int, target: Buffer, size: int) -> None:
        """Record the commands of the next copy into the next entry of the ring, which must be free.

        Args:
            source: buffer to be copied from
            offset: first byte in this buffer
            target: buffer to be copied to, from its first byte on
            size: number of bytes
        """
        device, vk = self.queue.device, self.queue.device.vk
        everything, transfer = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
        written, read = vk.VK_ACCESS_MEMORY_WRITE_BIT, vk.VK_ACCESS_TRANSFER_READ_BIT
        before = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=read)
        after = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
        )
        with device.lock, driver_errors("recording a copy"):
            buffer = self.next_buffer
            vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo())
            vk.vkCmdPipelineBarrier(buffer, everything, transfer, 0, 1, [before], 0, None, 0, None)
            region = vk.VkBufferCopy(srcOffset=offset, dstOffset=0, size=size)
            vk.vkCmdCopyBuffer(buffer, source.handle, target.handle, 1, [region])
            vk.vkCmdPipelineBarrier(buffer, transfer, vk.VK_PIPELINE_STAGE_HOST_BIT, 0, 1, [after], 0, None, 0, None)
            vk.vkEndCommandBuffer(buffer)


class Readback:
    """Copy arrays from the memory of one queue to the host through a fast staging buffer."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()

    def pays(self, array: np.ndarray) -> bool:
        """Return True if the device can copy an array to fast host memory, and this is faster than a read in place."""
        if array.nbytes < LEAST or not array.flags.c_contiguous or not self._queue.device.addressed:
            return False
        region = self._region(array)
        cached = self._queue.device.cached_types
        return region is not None and bool(cached) and region.buffer.kind not in cached

    def _region(self, array: np.ndarray) -> ArenaRegion | None:
        """Return the region of shared memory that contains an array, or None if the array is elsewhere."""
        return self._queue.arena.find(_address(array))

    def read(self, array: np.ndarray) -> np.ndarray:
        """Return a host copy of an array that no launch is writing. Raise DeviceError if the copy fails."""
        region, found = self._region(array), np.empty(array.shape, array.dtype)
        assert region is not None
        begin, content = _address(array) - region.begin, found.reshape(-1).view(np.uint8)
        for at in range(0, array.nbytes, PART):
            size = min(PART, array.nbytes - at)
            with self._lock:
                self._copy(region.buffer, begin + at, size)
                content[at : at + size] = np.frombuffer(self._target.view, np.uint8, size)
        self._queue.counters.readbacks += 1
        return found

    def _copy(self, source: Buffer, offset: int, size: int) -> None:
        """Copy bytes of a buffer to the staging buffer, and wait."""
        queue, copies = self._queue, self._copies
        queue.reach(copies.busy_until)
        copies.record(source, offset, self._target, size)
        if self._launch(self._block.address) == FAILED:
            raise queue.refusal(self._block.word(_LAYOUT.driver_error_at), "reading memory")
        queue.finish()

    # -- made when they are first needed ----------------------------------------------------------------------

    @cached_property
    def _target(self) -> Buffer:
        return Buffer(self._queue.device, PART, kinds=self._queue.device.cached_types)

    @cached_property
    def _copies(self) -> _Copies:
        return _Copies(self._queue, None, [], _LAYOUT.passed, b"")

    @cached_property
    def _code(self) -> NativeCode:
        return NativeCode(host_code(_NOTHING, _LAYOUT, [], 0, SLOTS, 0, Options()), 0)

    @cached_property
    def _launch(self) -> Any:
        return _LAUNCH(self._code.address)

    @cached_property
    def _block(self) -> VulkanBlock:
        block = VulkanBlock(_LAYOUT, _NOTHING.name, set(), self._queue)
        block.put(_LAYOUT.driver_at, self._copies.address)
        return block


_NOTHING = Kernel("copy", (), ())
_LAYOUT = block_layout(lay_out(_NOTHING))


def _address(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found
