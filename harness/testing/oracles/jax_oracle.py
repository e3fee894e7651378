"""This module computes the results of a forward kernel, and its cotangents by JAX's own derivatives, in float64.

JAX runs eagerly under one `jax.vjp`. Reals and integers of every lane have a concrete NumPy half that takes all
decisions. So loops are Python loops of the actual length, and only arithmetic is left for JAX to trace.

The iterations of a parallel task run in lockstep as lanes of one vector. That is a legal order of the task only if no
two lanes depend on each other, so every access is claimed. On a conflict the group starts again as two halves, one
after the other; in the end it runs one iteration at a time in row-major order.

At kinks and singular points JAX has conventions of its own (half to each operand at a tie of min or max, NaN from a
masked infinity); results must not be compared there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....backends.base import Draws
from ....compiler.ir.depth import with_stack_room
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.types import ArrayType
from ....compiler.ir.walk import used_values, walk_kernel
from .common import carriers, require_supported
from .jax_memory import Cells, LaneValue, OrderDependence
from .jax_ops import storage
from .jax_statements import LockstepLanes, LockstepLaunch

GROUP = 32768
"""Largest number of lanes that run in lockstep; longer tasks run group after group."""


@with_stack_room
def run(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any],
    draws: Draws = Draws(),  # noqa: B008 (immutable)
    widen: bool = True,
) -> dict[str, np.ndarray]:
    """Return the final contents of every array parameter of a forward kernel; `arrays` stays unchanged.

    Args:
        kernel: the forward kernel.
        arrays: the initial contents, by name.
        scalars: the scalar arguments, by name.
        draws: the source of random numbers.
        widen: compute reals in float64 and return them so; else each operation rounds to its type.

    Raises:
        OutOfBounds, KernelAssertionError, DivisionByZero: the kernel traps.
        Unsupported: the kernel is an adjoint kernel.
        ValueError: an argument does not fit its parameter.
    """
    require_supported(kernel, arrays, scalars)
    cells = _memory(kernel, arrays, frozenset(), {}, widen)
    _execute(kernel, cells, scalars, draws, widen)
    return {name: cells[name].value.reshape(cells[name].shape) for name in arrays if name in cells}


@with_stack_room
def vjp(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any],
    cotangents: Mapping[str, np.ndarray],
    wrt: Sequence[str] | None = None,
    draws: Draws = Draws(),  # noqa: B008 (immutable)
) -> dict[str, np.ndarray]:
    """Return the cotangents (float64) of the initial contents of the arrays `wrt`, by default of all with an adjoint.

    `cotangents` are those of the final contents, by name; an absent array has zero. Memory carries derivatives if its
    type has an adjoint, if it is in `wrt`, or if it is a temporary; a store to any other array stops them, and a
    cotangent of such an array is a ValueError. All other exceptions are those of `run`.
    """
    require_supported(kernel, arrays, scalars)
    if wrt is None:
        wrt = [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]
    carrying = carriers(kernel, wrt)
    outputs = [name for name in arrays if name in cotangents]
    if set(cotangents) - (set(outputs) & carrying):
        names = sorted(set(cotangents) - (set(outputs) & carrying))
        raise ValueError(f"kernel {kernel.name}: {names} have cotangents but no adjoint")

    def final(*initial: Any) -> list[Any]:
        cells = _memory(kernel, arrays, carrying, dict(zip(wrt, initial)), widen=True)
        _execute(kernel, cells, scalars, draws, widen=True)
        return [_traced(cells[name]) for name in outputs]

    with jax.default_device(jax.devices("cpu")[0]):
        initial = [_padded(arrays[name], arrays[name]) for name in wrt]
        _, pull = jax.vjp(final, *initial)
        found = pull([_padded(cotangents[name], arrays[name]) for name in outputs])
    shapes = [np.shape(arrays[name]) for name in wrt]
    return {name: np.asarray(g)[: int(np.prod(s))].reshape(s) for name, g, s in zip(wrt, found, shapes)}


def _traced(cells: Cells) -> Any:
    return jnp.asarray(cells.padded()) if cells.trace is None else cells.trace


def _padded(content: np.ndarray, like: np.ndarray) -> Any:
    if np.shape(content) != np.shape(like):
        raise ValueError(f"expected a cotangent of shape {np.shape(like)}, got {np.shape(content)}")
    return jnp.asarray(Cells(np.array(content, np.float64, order="C"), carries=True).padded())


def _memory(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], carrying: frozenset[str], traces: Mapping[str, Any], widen: bool
) -> dict[str, Cells]:
    """Return the memory of a launch by name: a copy of each array, and a zero for each temporary."""
    cells = {}
    for param in kernel.params:
        if isinstance(param.type, ArrayType):
            content = np.array(arrays[param.name], storage(param.type.dtype, widen), order="C")
            cells[param.name] = Cells(content, param.name in carrying, traces.get(param.name))
    for temp in kernel.temps:
        cells[temp.name] = Cells(np.zeros((), storage(temp.dtype, widen)), temp.name in carrying)
    return cells


# ---- tasks --------------------------------------------------------------------------------------------------


def _execute(kernel: Kernel, cells: dict[str, Cells], scalars: Mapping[str, Any], draws: Draws, widen: bool) -> None:
    ends = {v for task in kernel.tasks for v in (*task.begin, *task.end)}
    used = frozenset(used_values(walk_kernel(kernel)) | ends)
    launch = LockstepLaunch(kernel, cells, scalars, (draws.seed, draws.launch), widen, used)
    with np.errstate(all="ignore"):
        for number, task in enumerate(kernel.tasks):
            if launch.ended:
                return
            _task(launch, number, task)


def _task(launch: LockstepLaunch, number: int, task: Task) -> None:
    if not task.is_parallel:
        lanes = LockstepLanes(launch, number, np.zeros(1, np.int64))
        lanes.block(task.body, lanes.alive)
        # A return in a serial task ends the kernel.
        launch.ended = bool(lanes.frames[0].broken[0])
        return
    once = LockstepLanes(launch, number, np.zeros(1, np.int64))
    once.block(task.bounds, once.alive)
    begin, end = ([int(once.values[v].value[0]) for v in ends] for ends in (task.begin, task.end))
    extents = [max(0, e - b) for b, e in zip(begin, end)]
    points = np.arange(int(np.prod(extents)), dtype=np.int64)
    for start in range(0, points.size, GROUP):
        _group(launch, number, task, begin, extents, points[start : start + GROUP])


def _group(
    launch: LockstepLaunch, number: int, task: Task, begin: list[int], extents: list[int], points: np.ndarray
) -> None:
    """Run a group of iterations in lockstep. If their order matters, undo the run and run each half as a group."""
    saved = {name: cells.snapshot() for name, cells in launch.cells.items()}
    for cells in launch.cells.values():
        cells.forget()
    lanes = LockstepLanes(launch, number, points)
    for value, first, place in zip(task.indices, begin, np.unravel_index(lanes.numbers, extents)):
        lanes.values[value] = LaneValue((first + place).astype(value.type.dtype))
    try:
        lanes.block(task.body, lanes.alive)
    except OrderDependence:
        for name, cells in launch.cells.items():
            cells.restore(saved[name])
        half = points.size // 2
        _group(launch, number, task, begin, extents, points[:half])
        _group(launch, number, task, begin, extents, points[half:])
