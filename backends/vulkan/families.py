"""Which family of queues of a device kernels are submitted to."""

from __future__ import annotations

from collections.abc import Sequence

_GRAPHICS, _COMPUTE = 1, 2
"""VK_QUEUE_GRAPHICS_BIT, VK_QUEUE_COMPUTE_BIT."""


def compute_family(flags: Sequence[int]) -> int | None:
    """The family of queues to use, by the flags of each: of shaders alone if there is one, else the first with shaders.

    A queue that draws too takes half as long again for each submission (docs/decisions/launches_on_vulkan.md).
    """
    fit = [k for k, has in enumerate(flags) if has & _COMPUTE]
    return min(fit, key=lambda k: (flags[k] & _GRAPHICS, k), default=None)
