"""This module holds the ring of a kernel: entries of memory with recorded commands, which launches reuse in turn.

An entry of the ring is the argument block, the tail that the module wants after it, and the number of workgroups of
each entry point. The command buffer pushes the ring entry's address and dispatches each entry point with the number of
workgroups that stands there, so it is recorded once for all launches. A ring entry is used again when the timeline has
passed the value of its last launch.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ..words import address_of, words
from .arena import Suballocation
from .device import driver_errors
from .host_code import GROUPS, R_NEXT, R_TABLE, RING, S_HOST, S_INFO, S_VALUE, SLOT
from .queue import Queue, number_of

SLOTS = 8
"""Number of launches of one kernel by which the host may be ahead of the device."""

_ALIGN = 64


def round_up(size: int, to: int) -> int:
    """Return `size` rounded up to a multiple of `to`."""
    return -(-size // to) * to


class Ring:
    """Represent the ring of one kernel, whose entries hold the argument blocks of launches in turn.

    Attributes:
        queue: queue to which the entries are submitted
        counts_at: offset of the workgroup counts in an entry
        piece: memory of the entries
        words: words that machine code reads (see host_code.py)
    """

    def __init__(self, queue: Queue, layout: Any, pipelines: Sequence[Any], size: int, tail: bytes) -> None:
        self.queue = queue
        self.counts_at = groups_at(size, tail)
        pitch = round_up(self.counts_at + GROUPS * len(pipelines), _ALIGN)
        self.piece: Suballocation = queue.arena.take(pitch * SLOTS)
        self.words: array[int] = words(bytes(8 * (RING + SLOT * SLOTS)))
        self.words[R_TABLE] = queue.table_address
        self._infos: list[Any] = []
        self._buffers: Any = None
        try:
            self._allocate()
            for number in range(SLOTS):
                self._prepare(number, number * pitch, size, tail, len(pipelines))
                self._record(number, self.piece.offset + number * pitch, layout, pipelines)
        except BaseException:
            self.release()
            raise

    def _allocate(self) -> None:
        """Allocate a command buffer for each entry of the ring."""
        device, vk = self.queue.device, self.queue.device.vk
        info = vk.VkCommandBufferAllocateInfo(
            commandPool=device.commands, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=SLOTS
        )
        with device.lock, driver_errors("making command buffers"):
            self._buffers = vk.vkAllocateCommandBuffers(device.handle, info)

    def _prepare(self, number: int, at: int, size: int, tail: bytes, entries: int) -> None:
        """Write the constant parts of a ring entry, and create the Vulkan structure that submits it."""
        queue, ffi = self.queue, self.queue.device.vk.ffi
        view = self.piece.view[at:]
        view[size : size + len(tail)] = tail
        # Machine code overwrites only the first of the three numbers of groups.
        view[self.counts_at : self.counts_at + GROUPS * entries] = words((1,)).tobytes()[:4] * (3 * entries)
        buffer = ffi.new("VkCommandBuffer[1]", [self._buffers[number]])
        info = ffi.new("VkSubmitInfo *")
        info.sType = queue.device.vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
        info.pNext = queue.signal
        info.commandBufferCount, info.pCommandBuffers = 1, buffer
        info.signalSemaphoreCount, info.pSignalSemaphores = 1, queue.semaphores
        self._infos.append((info, buffer))
        slot = RING + SLOT * number
        self.words[slot + S_VALUE] = 0
        self.words[slot + S_HOST] = self.piece.address + at
        self.words[slot + S_INFO] = number_of(queue.device.vk, info)

    def _record(self, number: int, offset: int, layout: Any, pipelines: Sequence[Any]) -> None:
        """Record the command buffer that runs all entry points of the kernel with the data of one entry of the ring."""
        device, vk = self.queue.device, self.queue.device.vk
        buffer, memory = self._buffers[number], self.piece.region.buffer
        compute, host = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        both, written = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT, vk.VK_ACCESS_SHADER_WRITE_BIT
        between = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=both)
        after = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        with device.lock, driver_errors("recording a kernel"):
            vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo())
            address = vk.ffi.new("uint64_t *", memory.address + offset)
            vk.vkCmdPushConstants(buffer, layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, address)
            for place, pipeline in enumerate(pipelines):
                vk.vkCmdPipelineBarrier(buffer, compute, compute, 0, 1, [between], 0, None, 0, None)
                self._mark(number, place)
                vk.vkCmdBindPipeline(buffer, vk.VK_PIPELINE_BIND_POINT_COMPUTE, pipeline)
                vk.vkCmdDispatchIndirect(buffer, memory.handle, offset + self.counts_at + GROUPS * place)
            vk.vkCmdPipelineBarrier(buffer, compute, host, 0, 1, [after], 0, None, 0, None)
            self._mark(number, len(pipelines))
            vk.vkEndCommandBuffer(buffer)

    def _mark(self, number: int, place: int) -> None:
        """Do nothing here; the subclass `TaskTimes` records a time stamp before entry point number `place`."""

    @property
    def address(self) -> int:
        """Return the address of the ring's control words."""
        return address_of(self.words)

    @property
    def busy_until(self) -> int:
        """Return the value of the timeline at which the next entry of the ring becomes free."""
        return self.words[RING + SLOT * self.words[R_NEXT] + S_VALUE]

    @property
    def next_buffer(self) -> Any:
        """Return the command buffer of the next entry of the ring."""
        return self._buffers[self.words[R_NEXT]]

    def release(self) -> None:
        """Free all memory and command buffers; no launch may use them any more."""
        device, vk = self.queue.device, self.queue.device.vk
        if self._buffers is not None:
            with device.lock:
                vk.vkFreeCommandBuffers(device.handle, device.commands, SLOTS, self._buffers)
        self.queue.arena.give(self.piece)


def groups_at(size: int, tail: bytes) -> int:
    """Return the byte offset in a ring entry of the workgroup counts for indirect dispatches."""
    return round_up(size + len(tail), 16)
