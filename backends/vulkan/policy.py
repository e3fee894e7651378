"""This module decides how many threads and rows a task with adstacks gets, and if it runs over a list.

The rules are those of device/policy.py.

Vulkan does not tell the size of the second-level cache: a discrete card is taken to have much, any other device little.
Rows come in whole workgroups, and a task has no more threads than the device is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...compiler.ir.nodes import Kernel
from ..base import Sizes
from ..codegen.layout import BlockLayout
from ..device.policy import DeviceLimits, TaskGeometry
from ..device.stacks import StackPlacement
from ..spirv.shaders import LOCAL_SIZE
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


def dispatches(
    kernel: Kernel, layout: BlockLayout, sizes: Sizes, counts: Mapping[int, int], device: DeviceLimits, most: int
) -> dict[int, TaskGeometry]:
    """Return the launch geometry (threads, rows, list) of each task with adstacks.

    Args:
        kernel: kernel without exits
        layout: layout of its argument block
        sizes: capacities of the stacks
        counts: iterations of tasks, where they are known
        device: description of the device
        most: greatest number of threads of a task
    """
    # A list holds numbers of 32 bits, so a task of more iterations has none.
    listed = frozenset(task for task in layout.list_at if counts.get(task, 1 << 32) < 1 << 32)
    placement = StackPlacement(kernel, layout, device, listed)
    found = placement.dispatches(replace(sizes, iterations=counts))
    return {
        task: replace(one, rows=min(most, -(-one.rows // LOCAL_SIZE) * LOCAL_SIZE))
        if kernel.tasks[task].is_parallel
        else one
        for task, one in found.items()
    }
