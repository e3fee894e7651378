"""Drop each axis of a parallel task that has one place: its index becomes a constant.

    parallel (%3, %4) in (0 .. %0, 0 .. 1) {     parallel (%3) in (0 .. %0) {
      %5: f32 = load x[%3, %4]                     %4: i32 = const 0
    }                                              %5: f32 = load x[%3, %4]
                                                 }

A CPU runs iterations that are neighbors on the last axis as the lanes of a block, so that a last axis with one place
would leave all lanes but one without work. The number of each iteration, which counts in row-major order, is the same.
One axis is left where all have one place.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.affine import extents
from ..ir import nodes as n
from ..ir.kernels import Kernel, Task


def drop_unit_axes(kernel: Kernel) -> Kernel:
    """Return the kernel without axes that are known to have one place, or the same object if there is none."""
    tasks = tuple([_narrowed(task) for task in kernel.tasks])
    is_same = all(new is old for new, old in zip(tasks, kernel.tasks))
    return kernel if is_same else replace(kernel, tasks=tasks)


def _narrowed(task: Task) -> Task:
    """Return the task without its unit axes, or the same object if it has none or a single axis."""
    if len(task.indices) < 2:
        return task
    known = {axis: place for axis, place in enumerate(_places(task)) if place is not None}
    kept = [axis for axis in range(len(task.indices)) if axis not in known] or [0]
    if len(kept) == len(task.indices):
        return task
    constants = [n.Const(index, known[axis]) for axis, index in enumerate(task.indices) if axis not in kept]
    return replace(
        task,
        body=(*constants, *task.body),
        indices=tuple([task.indices[axis] for axis in kept]),
        begin=tuple([task.begin[axis] for axis in kept]),
        end=tuple([task.end[axis] for axis in kept]),
    )


def _places(task: Task) -> list[int | None]:
    """Return the only index along each axis, or None for an axis that may have other than one place."""
    return [
        begin.constant if not begin.terms and not end.terms and end.constant - begin.constant == 1 else None
        for begin, end in extents(task)
    ]
