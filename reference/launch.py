"""Launch a kernel on the reference interpreter: bind the arrays, and run the tasks in order, in chunks of lanes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..backends.base import Arrays, Draws, Scalars, Sizes
from ..compiler.ir.depth import with_stack_room
from ..compiler.ir.kernels import Kernel, Task
from ..compiler.ir.nodes import LocalArray, StackAlloca
from ..compiler.ir.statement import Value
from ..compiler.ir.walk import walk
from . import blocks, control, places, values
from .frame import LaneFrame, number
from .machine import Chunk, Machine, PreparedKernel
from .memory import bind_arrays, bind_scalars
from .order import VECTOR, Order, order_by_name
from .storage import HeapCounter

FUEL = 100_000_000
"""Number of statements that a launch may execute by default; a statement counts once for all lanes of a chunk."""

WIDTH = 32_768
"""Greatest number of lanes of a chunk: vectors stay in the cache, and many lanes share the cost of a statement."""

CHUNK_BYTES = 64 << 20
"""Greatest number of bytes that the local arrays and adstacks of a chunk should need, if capacities are known."""

UNSIZED_WIDTH = 1_024
"""Greatest number of lanes of a chunk with a stack of unknown capacity."""

HANDLERS = (values, places, control, blocks)
"""The modules that fill the table RUN, which are imported for that purpose."""


@dataclass(frozen=True)
class LaunchReport:
    """Represent the counts of a finished launch on the reference: executed statements, and adstack depths.

    Attributes:
        executed: number of executed statements; one that many lanes execute together counts once
        deepest: greatest depth of each adstack that was used
    """

    executed: int
    deepest: Mapping[str, int] = field(default_factory=dict)


@with_stack_room
def run(
    kernel: Kernel | PreparedKernel,
    arrays: Arrays,
    scalars: Scalars,
    sizes: Sizes = Sizes(),  # noqa: B008
    draws: Draws = Draws(),  # noqa: B008
    order: str | Order = VECTOR,
    fuel: int = FUEL,
    heap: HeapCounter | None = None,
) -> LaunchReport:
    """Execute a kernel once on the reference interpreter, and write the results into the arrays.

    `order` is an order or its name (see `order_by_name`); `heap` accounts for adstack memory.

    Raises:
        KernelTypeError: for arguments that do not fit
        StackgradError: for a trap, one of `traps.TRAPS`
    """
    program = kernel if isinstance(kernel, PreparedKernel) else PreparedKernel(kernel)
    kernel = program.kernel
    machine = Machine(
        program,
        bind_arrays(kernel, arrays),
        bind_scalars(kernel, scalars),
        sizes,
        draws,
        fuel,
        heap or HeapCounter(),
        Chunk(0, 0, 1),
    )
    schedule = order_by_name(order) if isinstance(order, str) else order
    with np.errstate(all="ignore"):
        for position, task in enumerate(kernel.tasks):
            if task.is_parallel:
                _run_parallel(machine, position, task, schedule)
            elif _run_chunk(machine, task, Chunk(position, 0, 1)):
                break
    return LaunchReport(fuel - machine.fuel, machine.deepest)


def _run_chunk(machine: Machine, task: Task, chunk: Chunk) -> bool:
    """Execute the body of a task for one chunk of iterations. Return True if a lane returned."""
    machine.chunk = chunk
    frame = LaneFrame(chunk.width)
    _set_indices(frame, task.indices, chunk)
    try:
        machine.run(task.body, frame)
    finally:
        machine.close()
    return chunk.returned


def _run_parallel(machine: Machine, position: int, task: Task, order: Order) -> None:
    """Execute all iterations of a parallel task, one chunk after the other in the given order."""
    base, extents = _box(machine, position, task)
    width, total = most_lanes(task, machine.sizes), math.prod(extents)
    # The iterations of a block run together.
    unit = task.block or 1
    for first, last in order.chunks(-(-total // unit), max(1, width // unit)):
        start, stop = first * unit, min(last * unit, total)
        _run_chunk(machine, task, Chunk(position, start, stop - start, base, extents))


def _box(machine: Machine, position: int, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first point and the extents of the box that a parallel task runs over."""
    machine.chunk = Chunk(position, 0, 1)
    frame = LaneFrame(1)
    machine.run(task.bounds, frame)
    begin = tuple(int(frame.value(v)) for v in task.begin)
    end = tuple(int(frame.value(v)) for v in task.end)
    return begin, tuple(max(e - b, 0) for b, e in zip(begin, end))


def _set_indices(frame: LaneFrame, indices: tuple[Value, ...], chunk: Chunk) -> None:
    """Assign the loop indices of a parallel task to each lane, with the last axis fastest."""
    stop = chunk.start + chunk.width
    place = number(chunk.start) if chunk.width == 1 else np.arange(chunk.start, stop, dtype=np.int64)
    for value, base, extent in reversed(list(zip(indices, chunk.base, chunk.extents))):
        place, digit = np.divmod(place, np.int64(extent)) if len(indices) > 1 else (place, place)
        frame.values[value.id] = (digit + np.int64(base)).astype(value.type.dtype)


def most_lanes(task: Task, sizes: Sizes) -> int:
    """Return the number of iterations to run as one chunk: 1 in a serial task, else limited by CHUNK_BYTES."""
    if not task.is_parallel:
        return 1
    lane, most = 1, WIDTH
    for stmt in walk(task.body):
        if isinstance(stmt, LocalArray):
            lane += stmt.size * stmt.dtype.size
        elif isinstance(stmt, StackAlloca):
            capacity = sizes.capacities.get(stmt.stack) if stmt.capacity is None else stmt.capacity
            most = UNSIZED_WIDTH if capacity is None else most
            lane += (capacity or 0) * stmt.dtype.size * (1 + stmt.adjoint)
    return max(1, min(most, CHUNK_BYTES // lane))
