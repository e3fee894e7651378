"""Copy arrays by launching a kernel, so that derivatives flow through the copy.

    parallel i, j in shape y { y[i, j] = cast x[j, i] }

Invariant: the elements that a copy reads and writes are known as boxes, and its gradient reads no content, so a tape
saves nothing for it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..compiler.ir.build import Builder
from ..compiler.ir.kernels import Kernel, Param, Task
from ..compiler.ir.types import ArrayType, i32
from ..runtime.session import RUNTIME
from .program import Binding, Program

if TYPE_CHECKING:
    from ..compiler.ir.statement import Value
    from ..data.fields import Array
    from ..data.fields.copies import AxisMap

SOURCE, TARGET = "source", "target"


class CopyKernel:
    """Hold the kernel that copies arrays of one type to arrays of another, and its bindings to pairs of arrays.

    Attributes:
        program: The program of the kernel.
    """

    def __init__(self, source: ArrayType, target: ArrayType, axes: AxisMap) -> None:
        self.program = Program(copy_kernel(source, target, axes))
        self._bindings: weakref.WeakValueDictionary[tuple[int, int], Binding] = weakref.WeakValueDictionary()

    def binding(self, target: Array, source: Array) -> Binding:
        """Return the binding that copies the array `source` to the array `target`."""
        key = id(target), id(source)
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = Binding(self.program, {SOURCE: source, TARGET: target})
        return found


def launch_copy(target: Array, source: Array, axes: AxisMap) -> None:
    """Copy one array to another by launching a kernel.

    Args:
        target: The array to overwrite.
        source: The array to read, of the dtype of the target, or of a real dtype if the target has one.
        axes: For each axis of the source, the axis of the target with the same index; see `data.fields.copies`.
    """
    kinds = [ArrayType(one.dtype, one.ndim, one.needs_grad) for one in (source, target)]
    key = (*kinds, axes)
    found = RUNTIME.copies.get(key)
    if found is None:
        found = RUNTIME.copies[key] = CopyKernel(kinds[0], kinds[1], axes)
    found.binding(target, source).launch({})


def copy_kernel(source: ArrayType, target: ArrayType, axes: AxisMap) -> Kernel:
    """Return a kernel that copies every element of the source array to the target array.

    Args:
        source: The type of the source.
        target: The type of the target.
        axes: For each axis of the source, the axis of the target with the same index, or None for index 0.
    """
    b = Builder()
    begin = tuple(b.const(0, i32) for _ in range(target.ndim))
    end = tuple(b.shape(TARGET, axis) for axis in range(target.ndim))
    bounds = b.take()
    indices = tuple(b.fresh(i32) for _ in range(target.ndim))
    read: list[Value] = [b.const(0, i32) if axis is None else indices[axis] for axis in axes]
    value = b.load(SOURCE, tuple(read), source.dtype)
    b.store(TARGET, indices, value if source.dtype == target.dtype else b.cast(value, target.dtype))
    task = Task(b.take(), indices, bounds, begin, end)
    return Kernel("copy_from", (Param(SOURCE, source), Param(TARGET, target)), (task,))
