"""This module decides which arrays are wide: arrays whose extents kernels must hold in 64 bits instead of 32.

An array is wide if one of its indices or the number of its elements exceeds the range of i32. A kernel is traced anew
for wide arrays, so that launches on smaller arrays pay nothing. A kernel that reads an extent of 2^31 or more as i32
would see a wrong number, so this launch is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from .kernels import Kernel
from .nodes import Shape
from .walk import walk_kernel

NARROW = 1 << 31
"""This number, 2^31, is the least that i32 does not hold."""


def is_wide(shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> bool:
    """Return True if an extent, the element count or an end index of an array exceeds what 32-bit extents allow.

    Args:
        shape: extents of all axes.
        offset: first index of each axis; empty if every axis starts at 0.
    """
    ends = [max(extent + first, -first) for extent, first in zip(shape, offset)]
    return max(0, *shape, *ends, math.prod(shape)) >= NARROW


def narrow_axes(kernel: Kernel) -> Mapping[str, frozenset[int]]:
    """Return, for each array, the axes whose extents the kernel reads in 32 bits.

    An adjoint array has the extents of its primal, so its axes are counted under the name of the primal.
    """
    found: dict[str, set[int]] = {}
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, Shape) and stmt.result.type.bits < 64:
            found.setdefault(stmt.array.removesuffix(".grad"), set()).add(stmt.axis)
    return {name: frozenset(axes) for name, axes in found.items()}


def extent_problem(shape: tuple[int, ...], narrow: Iterable[int]) -> str:
    """Return a text that says which extent is too large for a kernel that reads it in 32 bits, or "" if none is.

    Args:
        shape: extents of the array.
        narrow: axes whose extents the kernel reads in 32 bits.
    """
    for axis in sorted(narrow):
        if shape[axis] >= NARROW:
            return f"of {shape[axis]} elements along axis {axis}, and the kernel reads that extent as i32"
    return ""


CURE = "read the extent as i64, or split the axis"
"""This text is the cure in errors whose reason comes from `extent_problem`."""
