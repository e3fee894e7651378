"""Copy arrays by launching a kernel, so that derivatives flow through the copy.

    parallel i, j in shape y { y[i, j] = cast x[j, i] }

Invariant: the elements that a copy reads and writes are known as boxes, and its gradient reads no primal, so a tape
saves nothing for it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..compiler.ir.build import Builder
from ..compiler.ir.kernels import Kernel, Param, Task
from ..compiler.ir.types import ArrayType, i32
from ..runtime.session import RUNTIME
from .bound import GRAD
from .program import Binding, Program

if TYPE_CHECKING:
    from ..compiler.ir.statement import Value
    from ..data.fields import Array
    from ..data.fields.copies import AxisMap

SOURCE, TARGET = "source", "target"
Names = tuple[str, str]
"""The names of the source and the target in the kernel."""


class CopyKernel:
    """Hold the kernel that copies arrays of one type to arrays of another, and its bindings to pairs of arrays.

    Attributes:
        program: The program of the kernel.
        names: The names of the source and the target in the kernel.
    """

    def __init__(self, source: ArrayType, target: ArrayType, names: Names, axes: AxisMap) -> None:
        self.program = Program(copy_kernel(source, target, names, axes))
        self.names = names
        self._bindings: weakref.WeakValueDictionary[tuple[int, int], Binding] = weakref.WeakValueDictionary()

    def binding(self, target: Array, source: Array) -> Binding:
        """Return the binding that copies the array `source` to the array `target`."""
        key = id(target), id(source)
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = Binding(self.program, dict(zip(self.names, (source, target))))
        return found


def launch_copy(target: Array, source: Array, axes: AxisMap) -> None:
    """Copy one array to another by launching a kernel.

    Args:
        target: The array to overwrite.
        source: The array to read, of the dtype of the target, or of a real dtype if the target has one.
        axes: For each axis of the source, the axis of the target with the same index; see `data.fields.copies`.
    """
    kinds = [ArrayType(one.dtype, one.ndim, one.needs_grad) for one in (source, target)]
    names = _names(source, target)
    key = (*kinds, *names, axes)
    found = RUNTIME.copies.get(key)
    if found is None:
        found = RUNTIME.copies[key] = CopyKernel(kinds[0], kinds[1], names, axes)
    found.binding(target, source).launch({})


def _names(source: Array, target: Array) -> Names:
    """Return the names of two arrays in a kernel, where the gradient of an array x is always x.grad."""
    if source is target._grad:
        return TARGET + GRAD, TARGET
    if target is source._grad:
        return SOURCE, SOURCE + GRAD
    return SOURCE, TARGET


def copy_kernel(source: ArrayType, target: ArrayType, names: Names, axes: AxisMap) -> Kernel:
    """Return a kernel that copies every element of the source array to the target array.

    Args:
        source: The type of the source.
        target: The type of the target.
        names: The names of the source and the target.
        axes: For each axis of the source, the axis of the target with the same index, or None for index 0.
    """
    b = Builder()
    read_name, written_name = names
    begin = tuple(b.const(0, i32) for _ in range(target.ndim))
    end = tuple(b.shape(written_name, axis) for axis in range(target.ndim))
    bounds = b.take()
    indices = tuple(b.fresh(i32) for _ in range(target.ndim))
    read: list[Value] = [b.const(0, i32) if axis is None else indices[axis] for axis in axes]
    value = b.load(read_name, tuple(read), source.dtype)
    b.store(written_name, indices, value if source.dtype == target.dtype else b.cast(value, target.dtype))
    task = Task(b.take(), indices, bounds, begin, end)
    return Kernel("copy_from", (Param(read_name, source), Param(written_name, target)), (task,))
