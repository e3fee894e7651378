"""Choose the family of queues to which kernels are submitted."""

from __future__ import annotations

from collections.abc import Sequence

_GRAPHICS, _COMPUTE = 1, 2
"""The values of VK_QUEUE_GRAPHICS_BIT and VK_QUEUE_COMPUTE_BIT."""


def compute_family(flags: Sequence[int]) -> int | None:
    """Return the number of a queue family that can compute, preferably one without graphics, or None if none can.

    `flags` holds the flags of each family. A queue that also draws takes half as long again for each submission
    (docs/decisions/0014-launches-on-vulkan.md).
    """
    fit = [k for k, has in enumerate(flags) if has & _COMPUTE]
    return min(fit, key=lambda k: (flags[k] & _GRAPHICS, k), default=None)
