"""This module submits kernels on devices without buffer addresses, by descriptor sets and recorded commands.

The command buffer is recorded once, as long as windows and grids stay. Invariant: nothing of it is on the device when
`run` returns, so sets may be written and commands recorded anew. The caller holds the device's lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...compiler.errors import DeviceError
from .device import VulkanDevice, driver_errors
from .windows import BufferWindow

Sets = Sequence[Mapping[int, BufferWindow]]


@dataclass(frozen=True)
class RecordedDispatch:
    """Represent the dispatch of one part of an entry point's threads.

    Attributes:
        entry: name of the entry point
        groups: number of its groups
        set: number of its descriptor set
        first: number of its first thread
        threads: number of threads of the whole task
    """

    entry: str
    groups: int
    set: int
    first: int
    threads: int


class RecordedCommands:
    """Hold the pipelines, descriptor sets and recorded command buffer of one kernel."""

    def __init__(self, device: VulkanDevice, code: bytes, entries: Sequence[str], bindings: int) -> None:
        self.device, self.bindings = device, bindings
        vk = device.vk
        with device.lock:
            self.layout, self.pipelines = device.pipelines(code, entries, bindings)
            self._buffers: Any = None
            self._pool: Any = None
            self._fences: list[Any] = []
            self._sets: list[Any] = []
            self._recorded: object = None
            try:
                with driver_errors("making a command buffer"):
                    info = vk.VkCommandBufferAllocateInfo(
                        commandPool=device.commands, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
                    )
                    self._buffers = vk.vkAllocateCommandBuffers(device.handle, info)
                    self._fences = [vk.vkCreateFence(device.handle, vk.VkFenceCreateInfo(), None)]
            except DeviceError:
                self.destroy()
                raise
        self._submit = [vk.VkSubmitInfo(pCommandBuffers=[self._buffers[0]])]

    def run(self, sets: Sets, steps: Sequence[Sequence[RecordedDispatch]]) -> None:
        """Run the steps one after another, the dispatches of each step side by side, and wait for the end.

        Args:
            sets: windows of each descriptor set, by binding
            steps: parts of each step

        Raises:
            DeviceError: if the driver refuses, or if the device is lost
        """
        device, vk = self.device, self.device.vk
        device.require()
        key = _key(sets), tuple(map(tuple, steps))
        with driver_errors("running a kernel", device):
            if key != self._recorded:
                self._recorded = None
                self._show(sets)
                self._record(steps)
                self._recorded = key
            vk.vkResetFences(device.handle, 1, self._fences)
            vk.vkQueueSubmit(device.queue, 1, self._submit, self._fences[0])
            try:
                vk.vkWaitForFences(device.handle, 1, self._fences, vk.VK_TRUE, (1 << 64) - 1)
            except vk.VkError:
                # For any reason of the failure, the submission may run forever.
                device.lost = True
                raise

    def _show(self, sets: Sets) -> None:
        """Bind the given buffer windows to the descriptor sets, and create the sets that are missing."""
        vk, writes = self.device.vk, []
        self._have(len(sets))
        for target, shown in zip(self._sets, sets):
            for binding, window in shown.items():
                info = vk.VkDescriptorBufferInfo(buffer=window.buffer.handle, offset=window.offset, range=window.size)
                writes.append(
                    vk.VkWriteDescriptorSet(
                        dstSet=target,
                        dstBinding=binding,
                        descriptorCount=1,
                        pBufferInfo=[info],
                        descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                    )
                )
        vk.vkUpdateDescriptorSets(self.device.handle, len(writes), writes, 0, None)

    def _have(self, count: int) -> None:
        """Create descriptor sets until there are `count` of them."""
        if count <= len(self._sets):
            return
        device, vk = self.device, self.device.vk
        room = vk.VkDescriptorPoolSize(type=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptorCount=count * self.bindings)
        self._drop_sets()
        info = vk.VkDescriptorPoolCreateInfo(maxSets=count, pPoolSizes=[room])
        self._pool = vk.vkCreateDescriptorPool(device.handle, info, None)
        layouts = [device.set_layout(self.bindings)] * count
        asked = vk.VkDescriptorSetAllocateInfo(descriptorPool=self._pool, pSetLayouts=layouts)
        made = vk.vkAllocateDescriptorSets(device.handle, asked)
        self._sets = [made[k] for k in range(count)]

    def _drop_sets(self) -> None:
        """Free all descriptor sets, together with the Vulkan pool from which they were allocated."""
        if self._pool is not None:
            self.device.vk.vkDestroyDescriptorPool(self.device.handle, self._pool, None)
        self._pool, self._sets = None, []

    def _record(self, steps: Sequence[Sequence[RecordedDispatch]]) -> None:
        """Record the dispatches of all steps into the command buffer, with a barrier between steps."""
        vk, buffer = self.device.vk, self._buffers[0]
        compute, host = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        both = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
        written = vk.VK_ACCESS_SHADER_WRITE_BIT
        between = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=both)
        after = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo())
        for place, parts in enumerate(steps):
            if place:
                vk.vkCmdPipelineBarrier(buffer, compute, compute, 0, 1, [between], 0, None, 0, None)
            for part in parts:
                self._dispatch(part)
        vk.vkCmdPipelineBarrier(buffer, compute, host, 0, 1, [after], 0, None, 0, None)
        vk.vkEndCommandBuffer(buffer)

    def _dispatch(self, part: RecordedDispatch) -> None:
        """Record the dispatch of one part of an entry point's threads."""
        vk, buffer, point = self.device.vk, self._buffers[0], self.device.vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(buffer, point, self.pipelines[part.entry])
        vk.vkCmdBindDescriptorSets(buffer, point, self.layout, 0, 1, [self._sets[part.set]], 0, None)
        words = vk.ffi.new("uint32_t[2]", [part.first, part.threads])
        vk.vkCmdPushConstants(buffer, self.layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, words)
        vk.vkCmdDispatch(buffer, part.groups, 1, 1)

    def destroy(self) -> None:
        """Destroy the command buffers, descriptor sets and pipelines.

        A process that did not open the device leaves it alone, and a lost device may still use what it has.
        """
        device, vk = self.device, self.device.vk
        if device.process != os.getpid() or device.lost:
            return
        with device.lock:
            self._drop_sets()
            for fence in self._fences:
                vk.vkDestroyFence(device.handle, fence, None)
            if self._buffers is not None:
                vk.vkFreeCommandBuffers(device.handle, device.commands, 1, self._buffers)
            device.destroy(self.layout, self.pipelines)


def _key(sets: Sets) -> object:
    """Return a key that is equal for two lists of descriptor sets with equal windows (buffer, offset and size)."""
    # A buffer that is alive is compared by identity.
    return tuple(tuple((k, w.buffer, w.offset, w.size) for k, w in shown.items()) for shown in sets)
