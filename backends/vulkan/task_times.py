"""This module measures the time of each task of a launch, by time stamps between the dispatches.

A profile launches through a ring of its own, whose command buffers write a time stamp before each entry point and after
the last one. So other launches pay nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compiler.errors import DeviceError
from .device import VulkanDevice, driver_errors
from .host_code import R_NEXT
from .queue import Queue
from .ring import SLOTS, Ring


class TaskTimes(Ring):
    """Represent a ring that also measures task times: command buffers write time stamps around each entry point."""

    def __init__(
        self, queue: Queue, layout: Any, pipelines: Sequence[Any], size: int, tail: bytes, tasks: Sequence[int]
    ) -> None:
        device, vk = queue.device, queue.device.vk
        self._tasks, self._stamps = tasks, len(pipelines) + 1
        info = vk.VkQueryPoolCreateInfo(queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=SLOTS * self._stamps)
        with driver_errors("making time stamps"):
            self._pool = vk.vkCreateQueryPool(device.handle, info, None)
        super().__init__(queue, layout, pipelines, size, tail)

    def _mark(self, number: int, place: int) -> None:
        """Record a time stamp in the command buffer of a ring entry."""
        vk, buffer, first = self.queue.device.vk, self._buffers[number], number * self._stamps
        if not place:
            vk.vkCmdResetQueryPool(buffer, self._pool, first, self._stamps)
        vk.vkCmdWriteTimestamp(buffer, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, self._pool, first + place)

    @property
    def next(self) -> int:
        """Return the number of the next entry of the ring."""
        return self.words[R_NEXT]

    def by_task(self, number: int, count: int) -> list[float]:
        """Return the seconds of each of `count` tasks in the last, finished launch of a ring entry.

        Raises:
            DeviceError: if the driver does not give the time stamps
        """
        found = [0.0] * count
        # If the ring has not moved, there was nothing to do, and nothing was submitted.
        if number != self.next:
            stamps = self._read(number)
            period = tick(self.queue.device)
            for task, begin, end in zip(self._tasks, stamps, stamps[1:]):
                found[task] += (end - begin) * period
        return found

    def _read(self, number: int) -> list[int]:
        """Return the time stamps of a ring entry, masked to the bits that the device supplies."""
        device, vk = self.queue.device, self.queue.device.vk
        count, content = self._stamps, vk.ffi.new("uint64_t[]", self._stamps)
        flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
        code = vk.lib.vkGetQueryPoolResults(
            device.handle, self._pool, number * count, count, 8 * count, content, 8, flags
        )
        if code != vk.VK_SUCCESS:
            raise DeviceError(f"Vulkan, reading time stamps: {code}")
        bits = valid_bits(device)
        return [stamp & ((1 << bits) - 1) for stamp in content]

    def release(self) -> None:
        """Free the ring's memory, command buffers and time stamps."""
        super().release()
        self.queue.device.vk.vkDestroyQueryPool(self.queue.device.handle, self._pool, None)


def valid_bits(device: VulkanDevice) -> int:
    """Return the number of valid bits of the device's time stamps, 0 if it has none."""
    families = device.vk.vkGetPhysicalDeviceQueueFamilyProperties(device.card.handle)
    return int(families[device.family].timestampValidBits)


def tick(device: VulkanDevice) -> float:
    """Return the seconds of one unit of the device's time stamps."""
    return float(device.vk.vkGetPhysicalDeviceProperties(device.card.handle).limits.timestampPeriod) * 1e-9
