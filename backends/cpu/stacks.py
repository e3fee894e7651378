"""This module lays out adstacks in CPU memory: each row is contiguous, and rows of a task follow one another.

A row belongs to a thread of the launch. Where the task runs as masked code, a row holds its lanes side by side,
[slot][lane]: offsets and strides in the block are those of one lane, and the code multiplies them. Tasks run one after
another, so they share a slab. A task of which it is known that no iteration needs a row gets none, and its stacks have
capacity 0: a push onto such a stack is an overflow, not a stray write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...compiler.errors import DeviceError
from ...compiler.ir.kernels import Kernel
from ..base import Concurrency, Options, Sizes
from ..codegen.layout import ALIGN, BlockLayout, StackLayout
from ..codegen.stack_sizes import memory_refusal, total_pushes
from ..codegen.stack_sizes import stack_capacity as stack_capacity  # the backend takes it from here
from ..codegen.target import Target
from ..heap import Heap, HeapRefusal
from ..host.block import ArgumentBlock
from ..llvm.masked import lanes_by_task
from .rows import content_of, most_in_flight

GAP = 0
"""Bytes that are left free behind each stack: tests look at them for stray writes."""

WIDEST = 16
"""Bytes of the largest slot: a row of lanes has room for it, because a stack without slots is read at offset 0."""


@dataclass
class StackPlacement:
    """Represent all data of an executable, except adstack sizes, that decide the memory layout of its adstacks.

    Attributes:
        kernel: Kernel that the adstacks belong to.
        layout: Byte offsets into the argument block.
        options: Options that the kernel was compiled with.
        lanes: Lanes of the masked code of each task that has masked code.
        growths: Number of launches that made the heap larger.
    """

    kernel: Kernel
    layout: BlockLayout
    options: Options
    lanes: Mapping[int, int] = field(default_factory=dict)
    growths: int = 0

    def flights(self, sizes: Sizes) -> dict[int, Concurrency]:
        """Return, for each task with adstacks, the number of threads and of lanes that may run at once."""
        mine: dict[int, list[tuple[int, int, int | None]]] = {task: [] for task, _ in self.layout.rows}
        for stack in self.layout.stacks:
            slots = stack_capacity(stack, sizes)
            mine[stack.task].append((stack.slot_bytes, slots, total_pushes(stack, slots, sizes)))
        return {task: self._flight(task, found) for task, found in mine.items()}

    def _flight(self, task: int, stacks: list[tuple[int, int, int | None]]) -> Concurrency:
        """Return the number of threads and of lanes that may run a task at once, given the sizes of its adstacks."""
        if task not in self.layout.threads_at:
            return Concurrency()
        row = sum(size * slots for size, slots, _ in stacks)
        content = content_of((size, total) for size, _, total in stacks)
        lanes, threads = self.lanes.get(task, 0), self.options.threads
        return most_in_flight(row, content, threads, lanes, forced=bool(self.options.lanes))


def place(kernel: Kernel, layout: BlockLayout, options: Options, target: Target) -> StackPlacement:
    """Return the StackPlacement of a kernel that is compiled with these options for this machine."""
    return StackPlacement(kernel, layout, options, lanes_by_task(kernel, options, target))


@dataclass
class StackPlan:
    """Represent the memory layout of the adstacks in one launch: words of the argument block, bytes of each slab.

    Attributes:
        words: Words with their byte offsets in the block.
        needs: Bytes by slab.
        flights: Numbers of threads and lanes that run each task at once.
        widest: Bytes of the stack that takes most, and its number.
    """

    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    flights: Mapping[int, Concurrency] = field(default_factory=dict)
    widest: tuple[int, int] = (0, -1)


def plan(layout: BlockLayout, sizes: Sizes, flights: dict[int, Concurrency]) -> StackPlan:
    """Compute the offset and capacity of every adstack of a kernel, and the bytes of each slab.

    Args:
        layout: Byte offsets into the argument block.
        sizes: Capacities and rows of the adstacks.
        flights: Numbers of threads and lanes that run each task at once.
    """
    out = StackPlan(flights=flights)
    for task, found in flights.items():
        if task in layout.threads_at:
            out.words += ((layout.threads_at[task], found.threads), (layout.lanes[task], found.lanes))
    groups: dict[tuple[int, str], list[StackLayout]] = {key: [] for key in layout.rows}
    for stack in layout.stacks:
        groups[stack.task, stack.slab].append(stack)
    for (task, slab), stacks in groups.items():
        flight = flights[task]
        places = flight.threads * flight.lanes
        stride = _round(_place(out, stacks, sizes, places), ALIGN if flight.lanes == 1 else WIDEST)
        out.words += ((layout.rows[task, slab], places if stride else 0), (layout.strides[task, slab], stride))
        out.needs[slab] = max(out.needs.get(slab, 0), places * stride)
    return out


def _place(out: StackPlan, stacks: list[StackLayout], sizes: Sizes, places: int) -> int:
    """Lay out the adstacks of a task one after another in a row of a slab; return the bytes of the row."""
    offset = 0
    for stack in stacks:
        slots, size = stack_capacity(stack, sizes), stack.slot_bytes
        # Each stack is aligned to its own type.
        offset = _round(offset, min(stack.alloca.dtype.size, 8))
        out.words += ((stack.capacity_at, slots), (stack.offset_at, offset if slots else 0))
        offset += slots * size + GAP
        if slots * size * places > out.widest[0]:
            out.widest = slots * size * places, stack.index
    return offset


def _round(size: int, to: int) -> int:
    """Return the size rounded up to a multiple of `to`."""
    return -(-size // to) * to


def bind(block: ArgumentBlock, placement: StackPlacement, sizes: Sizes, heap: Heap) -> None:
    """Reserve adstack memory and write its addresses and capacities into the block, unless the block has them.

    The caller holds the heap's lock.

    Args:
        block: Block of the launch.
        placement: Placement of the kernel.
        sizes: Capacities and rows of the adstacks.
        heap: Heap that the rows lie in.

    Raises:
        DeviceError: The memory cannot be had; nothing has run.
    """
    key = heap.epoch, dict(sizes.capacities), dict(sizes.rows), dict(sizes.totals)
    if block.stacks_key == key:
        return
    block.stacks_key = None
    words = block.view.cast("q")
    for at, word in _reserve(placement, sizes, heap).words:
        words[at >> 3] = word
    for slab, at in placement.layout.slabs.items():
        block.put(at, heap.base(slab))
    block.stacks_key = heap.epoch, *key[1:]


def _reserve(placement: StackPlacement, sizes: Sizes, heap: Heap) -> StackPlan:
    """Reserve adstack memory and return the plan; if memory is short, plan for one iteration at a time."""
    wide = placement.flights(sizes)
    for flights in (wide, {task: Concurrency() for task in wide}):
        found = plan(placement.layout, sizes, flights)
        try:
            placement.growths += heap.reserve(found.needs)
            return found
        except HeapRefusal as problem:
            reason = str(problem)
    size, index = found.widest
    widest = placement.layout.stacks[index]
    raise DeviceError(memory_refusal(placement.kernel, widest, stack_capacity(widest, sizes), size, reason))
