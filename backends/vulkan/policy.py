"""This module decides how many threads and rows a task with adstacks gets, and if it lists passing iterations.

The rules are those of device/policy.py.

Vulkan does not tell the size of the second-level cache: a discrete card is taken to have much, any other device little.
Rows come in whole workgroups, and a task has no more threads than the device is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Scalars, Sizes
from ..codegen.layout import BlockLayout
from ..device.policy import DeviceLimits, TaskGeometry
from ..device.stacks import StackPlacement, gated_tasks
from ..spirv.shaders import LOCAL_SIZE
from . import counts
from . import device as vulkan

DISCRETE = 2
"""The kind of a card that is no part of the processor."""

CACHES = {True: 32 << 20, False: 4 << 20}
"""Bytes of the second-level cache, by whether the device is a discrete card."""


def described(is_discrete: bool, memory_bytes: int) -> DeviceLimits:
    """Return the cache and memory limits of a device that launch sizes depend on."""
    return DeviceLimits(CACHES[is_discrete], memory_bytes)


def description(device: vulkan.VulkanDevice) -> DeviceLimits:
    """Return the cache and memory limits of an open device that launch sizes depend on."""
    return described(device.card.kind == DISCRETE, device.memory_types[0][1])


@dataclass
class ShaderPlacement(StackPlacement):
    """Represent the placement of adstacks on a Vulkan device, in rows of whole workgroups.

    Attributes:
        most: Greatest number of threads of a task.
    """

    most: int = LOCAL_SIZE

    def can_list(self, task: int, sizes: Sizes) -> bool:
        """Return True if a launch with these sizes can run the task over a list of iterations that pass its gate."""
        # A list holds numbers of 32 bits.
        return super().can_list(task, sizes) and sizes.iterations.get(task, 1 << 32) < 1 << 32

    def dispatches(self, sizes: Sizes) -> dict[int, TaskGeometry]:
        """Return the geometry of each task with adstacks; a parallel task gets rows for whole workgroups."""
        return {
            task: replace(one, rows=min(self.most, -(-one.rows // LOCAL_SIZE) * LOCAL_SIZE))
            if self.kernel.tasks[task].is_parallel
            else one
            for task, one in super().dispatches(sizes).items()
        }

    def halve(self, geometry: TaskGeometry) -> TaskGeometry:
        """Return the geometry of a task with half the rows, in whole workgroups; a single workgroup is kept."""
        if geometry.rows <= LOCAL_SIZE:
            return geometry
        return replace(geometry, rows=max(LOCAL_SIZE, geometry.rows // 2 // LOCAL_SIZE * LOCAL_SIZE))

    def iterations(self, sizes: Sizes, arrays: Arrays, scalars: Scalars) -> Mapping[int, int]:
        """Return the iteration counts of parallel tasks with adstacks, by task, if they are known before a launch."""
        found = dict(sizes.iterations)
        for index in dict.fromkeys(task for task, _ in self.layout.rows):
            task = self.kernel.tasks[index]
            count = counts.iterations(task, arrays, scalars) if task.is_parallel else None
            if count is not None:
                found[index] = count
        return found


def place(kernel: Kernel, layout: BlockLayout, device: DeviceLimits, most: int) -> ShaderPlacement:
    """Return the placement of the adstacks of a kernel.

    Args:
        kernel: Kernel without exits.
        layout: Layout of its argument block.
        device: Description of the device.
        most: Greatest number of threads of a task.
    """
    return ShaderPlacement(kernel, layout, device, gated_tasks(kernel, layout), most=most)
