"""What one executable submits: a command buffer that is recorded once, as long as addresses and grids stay.

Invariant: it is not on the device when `run` returns, so it may be recorded anew. The caller holds the device's lock.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...compiler.errors import DeviceError
from .device import Device, refusals

Dispatch = tuple[str, int]
"""(entry point, groups)."""


class Submission:
    """The command buffer of a kernel, its fence, and the structure that submits it."""

    def __init__(self, device: Device, layout: Any, pipelines: dict[str, Any]) -> None:
        self.device, self.layout, self.pipelines = device, layout, pipelines
        vk = device.vk
        with device.lock, refusals("making a command buffer"):
            info = vk.VkCommandBufferAllocateInfo(
                commandPool=device.commands, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
            )
            self._buffers = vk.vkAllocateCommandBuffers(device.handle, info)
            self._fences = [vk.vkCreateFence(device.handle, vk.VkFenceCreateInfo(), None)]
        self._submit = [vk.VkSubmitInfo(pCommandBuffers=[self._buffers[0]])]
        self._recorded: tuple[int, tuple[Dispatch, ...]] | None = None

    def run(self, block: int, dispatches: Sequence[Dispatch]) -> None:
        """Dispatch, one after another, and wait. block: address of the argument block. Raises DeviceError."""
        device, vk = self.device, self.device.vk
        if device.process != os.getpid():
            raise DeviceError(
                f"{device.card.name} was opened by the process that this one was forked from; cure: compile the kernel "
                "in this process, or start it by `spawn`"
            )
        key = block, tuple(dispatches)
        with refusals("running a kernel"):
            if key != self._recorded:
                self._recorded = None
                self._record(block, dispatches)
                self._recorded = key
            vk.vkResetFences(device.handle, 1, self._fences)
            vk.vkQueueSubmit(device.queue, 1, self._submit, self._fences[0])
            vk.vkWaitForFences(device.handle, 1, self._fences, vk.VK_TRUE, (1 << 64) - 1)

    def _record(self, block: int, dispatches: Sequence[Dispatch]) -> None:
        vk, buffer = self.device.vk, self._buffers[0]
        compute, host = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        both = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
        written = vk.VK_ACCESS_SHADER_WRITE_BIT
        between = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=both)
        after = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo())
        address = vk.ffi.new("uint64_t *", block)
        vk.vkCmdPushConstants(buffer, self.layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, address)
        for place, (entry, groups) in enumerate(dispatches):
            if place:
                vk.vkCmdPipelineBarrier(buffer, compute, compute, 0, 1, [between], 0, None, 0, None)
            vk.vkCmdBindPipeline(buffer, vk.VK_PIPELINE_BIND_POINT_COMPUTE, self.pipelines[entry])
            vk.vkCmdDispatch(buffer, groups, 1, 1)
        vk.vkCmdPipelineBarrier(buffer, compute, host, 0, 1, [after], 0, None, 0, None)
        vk.vkEndCommandBuffer(buffer)

    def destroy(self) -> None:
        """Give everything back, the pipelines too. A process that did not open the device leaves it alone."""
        device, vk = self.device, self.device.vk
        if device.process == os.getpid():
            with device.lock:
                vk.vkDestroyFence(device.handle, self._fences[0], None)
                vk.vkFreeCommandBuffers(device.handle, device.commands, 1, self._buffers)
                device.destroy(self.layout, self.pipelines)
