"""Extents of arrays, as kernels hold them: in 32 bits, or in 64 where an array is *wide*.

Indices of a wide array, or the number of its elements, are more than i32 holds. A kernel is traced anew for wide
arrays, so that others pay nothing; one that reads an extent of 2^31 or more in 32 bits would see another number, and is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from .nodes import Kernel, Shape
from .walk import walk_kernel

NARROW = 1 << 31
"""The least number that i32 does not hold."""


def is_wide(shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> bool:
    """Whether an array of this shape is wide. offset: the first index of each axis, if not 0."""
    ends = [max(extent + first, -first) for extent, first in zip(shape, offset)]
    return max(0, *shape, *ends, math.prod(shape)) >= NARROW


def narrow_axes(kernel: Kernel) -> Mapping[str, frozenset[int]]:
    """Axes whose extents the kernel reads in 32 bits, by array; an adjoint has the extents of its primal."""
    found: dict[str, set[int]] = {}
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, Shape) and stmt.result.type.bits < 64:
            found.setdefault(stmt.array.removesuffix(".grad"), set()).add(stmt.axis)
    return {name: frozenset(axes) for name, axes in found.items()}


def too_long(shape: tuple[int, ...], narrow: Iterable[int]) -> str:
    """What is wrong with an array of which a kernel reads these extents in 32 bits; empty if nothing is."""
    for axis in sorted(narrow):
        if shape[axis] >= NARROW:
            return f"of {shape[axis]} elements along axis {axis}, and the kernel reads that extent as i32"
    return ""


CURE = "read the extent as i64, or split the axis"
"""Of what `too_long` says."""
