"""Copies as launches: a kernel for each kind of copy, which has derivatives as any kernel has.

    parallel i, j in shape y { y[i, j] = cast x[j, i] }

Invariant: what a copy reads and writes is known by boxes, and its gradient reads no content, so it saves nothing.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from .compiler.ir.build import Builder
from .compiler.ir.nodes import Kernel, Param, Task
from .compiler.ir.types import ArrayType, i32
from .program import Binding, Program
from .session import RUNTIME

if TYPE_CHECKING:
    from .compiler.ir.nodes import Value
    from .fields import Array
    from .fields.copies import Axes

SOURCE, TARGET = "source", "target"


class Copy:
    """One kind of copy, with its bindings as long as someone holds them."""

    def __init__(self, source: ArrayType, target: ArrayType, axes: Axes) -> None:
        self.program = Program(copy_kernel(source, target, axes))
        self._bindings: weakref.WeakValueDictionary[tuple[int, int], Binding] = weakref.WeakValueDictionary()

    def binding(self, target: Array, source: Array) -> Binding:
        """The copy between two arrays."""
        key = id(target), id(source)
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = Binding(self.program, {SOURCE: source, TARGET: target})
        return found


def launch_copy(target: Array, source: Array, axes: Axes) -> None:
    """Launch a copy between two different arrays, of one type or of real types."""
    kinds = [ArrayType(one.dtype, one.ndim, one.needs_grad) for one in (source, target)]
    key = (*kinds, axes)
    found = RUNTIME.copies.get(key)
    if found is None:
        found = RUNTIME.copies[key] = Copy(kinds[0], kinds[1], axes)
    found.binding(target, source).launch({})


def copy_kernel(source: ArrayType, target: ArrayType, axes: Axes) -> Kernel:
    """Every element of the target becomes that of the source at the same place. axes: see `fields.copies`."""
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
