"""This module executes a kernel once on the reference and bounds the error of every element of the results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....backends.base import Arrays, Draws, Scalars, Sizes
from ....compiler.ir.depth import with_stack_room
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.passes.lower_blocks import lower_blocks
from ....reference.frame import LaneFrame, number
from ....reference.launch import FUEL, most_lanes
from ....reference.memory import FlatArray, bind_arrays, bind_scalars
from ....reference.order import VECTOR
from ....reference.storage import HeapCounter
from . import control, places, values
from .machine import BoundedChunk, BoundedKernel, BoundedMachine, error
from .roundoff import FORMATS, SLACK
from .rules import ZERO

HANDLERS = (values, places, control)
"""Modules that fill the table BOUNDED. They are imported for this effect."""

Errors = Mapping[str, "np.ndarray | float"]
"""Bounds by array name (same shape, f64) or by scalar name; an input without a bound is exact."""


@dataclass(frozen=True)
class BoundedResult:
    """A `BoundedResult` holds the final arrays of a run on the reference, with an error bound for each element.

    Attributes:
        arrays: the final contents of every given array, as the reference computes it.
        errors: f64 arrays of the same shapes; every permitted executor ends within them.
        poisoned: the reason why the errors mean nothing (they are infinite then), or None.
        trips: the number of loop bodies that were started; a body counts once for all lanes of a chunk.
        executed: the number of executed statements, counted in the same way.
    """

    arrays: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]
    poisoned: str | None
    trips: int
    executed: int


@with_stack_room
def run_bounded(
    kernel: Kernel | BoundedKernel,
    arrays: Arrays,
    scalars: Scalars,
    sizes: Sizes = Sizes(),  # noqa: B008
    draws: Draws = Draws(),  # noqa: B008
    errors: Errors | None = None,
    precise: bool = True,
    fuel: int = FUEL,
) -> BoundedResult:
    """Execute a kernel of stage tasks, structured or adjoint on copies of the arrays, and bound its errors.

    `errors` bounds the errors of inputs, such as those of the forward run that a gradient starts from. `precise` says
    that executors round add, sub, mul, div, sqrt and inv as IEEE says. Otherwise they may contract or compute in higher
    precision, and the bound also covers the distance from the exact result. The function raises what a launch on the
    reference raises.
    """
    program = kernel if isinstance(kernel, BoundedKernel) else BoundedKernel(lower_blocks(kernel))
    copies = {name: np.array(array, order="C") for name, array in arrays.items()}
    given, types = errors or {}, program.kernel.scalar_types()
    machine = BoundedMachine(
        program,
        bind_arrays(program.kernel, copies),
        bind_scalars(program.kernel, scalars),
        sizes,
        draws,
        fuel,
        HeapCounter(),
        BoundedChunk(0, 0, 1),
        precise=precise,
        errors=_array_errors(copies, given),
        scalar_errors={k: float(given[k]) for k in given if k in types},
    )
    with np.errstate(all="ignore"):
        _execute(machine)
        found = {name: _final(machine, name, copies[name]) for name in copies}
    return BoundedResult(copies, found, machine.poisoned, machine.trips, fuel - machine.fuel)


def _array_errors(arrays: Arrays, errors: Errors) -> dict[str, np.ndarray]:
    """Return flat copies of the given error bounds of arrays; arrays without an error are left out."""
    found = {}
    for name in arrays:
        e = np.array(np.broadcast_to(errors.get(name, 0.0), arrays[name].shape), np.float64).reshape(-1)
        if e.any():
            found[name] = e
    return found


def _final(machine: BoundedMachine, name: str, array: np.ndarray) -> np.ndarray:
    if machine.poisoned is not None:
        return np.full(array.shape, np.inf)
    known = machine.errors.get(name)
    # SLACK covers the rounding of the error arithmetic itself.
    return np.zeros(array.shape) if known is None else (known * SLACK).reshape(array.shape)


def _execute(machine: BoundedMachine) -> None:
    """Execute the tasks of a kernel in order, as a launch on the reference does."""
    for position, task in enumerate(machine.program.kernel.tasks):
        if task.is_parallel:
            _run_parallel(machine, position, task)
        elif _run_chunk(machine, task, BoundedChunk(position, 0, 1)):
            break


def _run_chunk(machine: BoundedMachine, task: Task, chunk: BoundedChunk) -> bool:
    """Execute the body of a task for a chunk of lanes. Return True if a lane returned from the kernel."""
    machine.chunk = chunk
    frame = LaneFrame(chunk.width)
    points = np.unravel_index(np.arange(chunk.start, chunk.start + chunk.width), chunk.extents) if task.indices else ()
    for value, base, point in zip(task.indices, chunk.base, points):
        index = number(int(point[0])) if chunk.width == 1 else point.astype(np.int64)
        frame.values[value.id] = (index + np.int64(base)).astype(value.type.dtype)
    try:
        machine.run(task.body, frame)
    finally:
        machine.close()
    return chunk.returned


def _run_parallel(machine: BoundedMachine, position: int, task: Task) -> None:
    base, extents = _box(machine, position, task)
    # Tasks run one after another, so notes on earlier tasks say nothing about this one.
    machine.ledgers.clear()
    for start, stop in VECTOR.chunks(math.prod(extents), most_lanes(task, machine.sizes)):
        _run_chunk(machine, task, BoundedChunk(position, start, stop - start, base, extents))
    if machine.poisoned is None:
        _close_books(machine)


def _box(machine: BoundedMachine, position: int, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first index and the extent of each axis of a parallel task."""
    machine.chunk = BoundedChunk(position, 0, 1)
    frame = LaneFrame(1)
    machine.run(task.bounds, frame)
    if any(error(frame, v) is not ZERO and error(frame, v).any() for v in (*task.begin, *task.end)):
        machine.poison("the box of a task is within its error bound of a jump")
    begin = tuple(int(frame.value(v)) for v in task.begin)
    end = tuple(int(frame.value(v)) for v in task.end)
    return begin, tuple(max(e - b, 0) for b, e in zip(begin, end))


def _close_books(machine: BoundedMachine) -> None:
    """Widen error bounds after a task by effects of the iteration order; poison the run if an effect is unbounded."""
    for name, books in machine.ledgers.items():
        memory: FlatArray = machine.memory[name]
        element = books.conflict()
        if element is not None:
            at = ", ".join(map(str, np.unravel_index(element, memory.shape))) if memory.shape else ""
            machine.poison(f"`{name}[{at}]` depends on the order of iterations")
            return
        if books.terms is not None:
            fmt = FORMATS[str(places.format_of(machine, name))]
            _note(machine, name, *books.summed(fmt.u, fmt.most))
        _note(machine, name, *books.stored(memory.flat))


def _note(machine: BoundedMachine, name: str, elements: np.ndarray, e: np.ndarray) -> None:
    """Replace the error bounds of some elements of an array by new ones."""
    if elements.size and (name in machine.errors or e.any()):
        machine.errors.setdefault(name, np.zeros(machine.memory[name].flat.size))[elements] = e
