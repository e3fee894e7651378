"""Describe the memory that the adstacks of a kernel occupy, by task, slab and stack, with variable and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...compiler.ir.kernels import Kernel
from ...compiler.ir.nodes import StackAlloca
from ...compiler.ir.walk import walk_kernel, walk_task
from ..base import SLABS, Backend, Options, Sizes, slab_of
from .task_ids import TASK_IDS


@dataclass(frozen=True)
class StackUse:
    """Represent the size of one adstack: its capacity, its slot size, and the variable whose history it holds.

    Attributes:
        name: name of the stack
        variable: variable whose history it keeps
        place: file and line at which the variable is declared
        capacity: number of slots
        slot_bytes: bytes of a slot
        total: number of values that all iterations push; None if they were not counted
    """

    name: str
    variable: str
    place: str
    capacity: int
    slot_bytes: int
    total: int | None = None


@dataclass(frozen=True)
class SlabUse:
    """Represent the memory that the adstacks of one task need in one slab.

    Attributes:
        kernel: name of the kernel
        task: index of the task
        slab: name of the slab
        passing: iterations that need a row; None if they were not counted
        rows: rows held at once, which later iterations take again; None if not known
        stride: bytes of a row
        source: where the sizes come from, a word for reports
        stacks: adstacks of the slab
        lanes: iterations side by side on a thread
        threads: threads that run the task
        registry_id: number of the task (task_ids.py)
    """

    kernel: str
    task: int
    slab: str
    passing: int | None
    rows: int | None
    stride: int
    source: str
    stacks: tuple[StackUse, ...] = field(default=())
    lanes: int = 1
    threads: int = 1
    registry_id: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes of all rows held at once, or of a single row if their number is not known."""
        return self.stride * (1 if self.rows is None else self.rows)

    @property
    def content(self) -> int | None:
        """Return the bytes of all values that the iterations of the task push, or None if they were not counted."""
        found = 0
        for stack in self.stacks:
            if stack.total is None:
                return None
            found += stack.total * stack.slot_bytes
        return found


def find_uses(kernel: Kernel, sizes: Sizes, source: str, backend: Backend, options: Options) -> list[SlabUse]:
    """Return the adstack memory that a launch with these sizes needs, by task and slab; empty without adstacks.

    `source` is a word for reports that says where the sizes come from.
    """
    found = []
    for index, task in enumerate(kernel.tasks):
        stacks = [s for s in walk_task(task) if isinstance(s, StackAlloca)]
        flight = backend.rows_in_flight(kernel, index, sizes, options) if stacks else None
        for slab in SLABS:
            mine = tuple(stack_use(kernel, s, sizes) for s in stacks if slab_of(s.dtype) == slab)
            if mine:
                stride = sum(s.capacity * s.slot_bytes for s in mine)
                passing = sizes.rows.get((index, slab))
                rows = passing if flight is None else flight.rows(passing)
                threads, lanes = (1, 1) if flight is None else (flight.threads, flight.lanes)
                number = TASK_IDS.of(kernel, index)
                found.append(
                    SlabUse(kernel.name, index, slab, passing, rows, stride, source, mine, lanes, threads, number)
                )
    return found


def stack_use(kernel: Kernel, stack: StackAlloca, sizes: Sizes) -> StackUse:
    """Return the capacity and slot size of one adstack of a kernel, given the kernel's sizes for a launch."""
    span = kernel.span(stack.loc)
    capacity = stack.capacity if stack.capacity is not None else sizes.capacities.get(stack.stack, 0)
    slot = stack.dtype.size * (2 if stack.adjoint else 1)
    place = f"{span.file}:{span.line}" if span else ""
    return StackUse(stack.stack, stack.variable or stack.stack, place, capacity, slot, sizes.totals.get(stack.stack))


def describe(use: SlabUse) -> str:
    """Return a line of text that describes the adstack memory of a task in a slab."""
    stacks = ", ".join(f"{s.variable}[{s.capacity}]" for s in use.stacks)
    rows = "unknown" if use.rows is None else str(use.rows)
    return (
        f"stackgrad adstack: {use.kernel} task {use.task} slab {use.slab}: {stacks}; size {use.source}; "
        f"rows {rows}, stride {use.stride} B, {use.bytes} B; id {use.registry_id:08x}"
    )


def describe_overflow(kernel: Kernel, sizes: Sizes, needed: Mapping[str, int]) -> Iterator[str]:
    """Yield lines of an overflow message: each adstack of the kernel with its capacity and the needed one.

    `needed` holds the capacities of a new count, where they are known.
    """
    for index, task in enumerate(kernel.tasks):
        if any(isinstance(s, StackAlloca) for s in walk_task(task)):
            yield f"    task {index} of {kernel.name}: id {TASK_IDS.of(kernel, index):08x}"
    for stack in (s for s in walk_kernel(kernel) if isinstance(s, StackAlloca)):
        use = stack_use(kernel, stack, sizes)
        count = f", a new count gives {needed[use.name]}" if use.name in needed else ""
        yield f"    adstack {use.name} of {use.variable} {use.place}: capacity {use.capacity}{count}"
    if any(needed.get(name, 0) > capacity for name, capacity in sizes.capacities.items()):
        yield "    cause: an array that a loop bound depends on was written behind the runtime's back"
