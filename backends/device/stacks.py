"""This module lays out adstacks in device memory: slots of neighboring rows are adjacent; each thread has a row.

    address of slot k = slab + offset · rows + (k · rows + row) · slot

with the row of a thread its own number, and the offset in bytes of one row. So the threads of a warp touch one run of
memory at each step. Tasks run one after another and share a slab; a task that runs over a list of passing iterations
has that after its rows in the integer slab. A task of which it is known that no iteration needs a row gets none, and
its stacks have capacity 0: a push onto such a stack is an overflow, not a stray write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...compiler.errors import DeviceError
from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Concurrency, Scalars, Sizes
from ..codegen.gates import gate_of
from ..codegen.layout import BlockLayout, StackLayout
from ..codegen.stack_sizes import memory_refusal, stack_capacity, total_pushes
from ..codegen.void_stacks import ALIGN, void_places
from ..heap import HeapRefusal
from ..host.block import ArgumentBlock
from .heap import DeviceHeap
from .policy import WARP, DeviceLimits, TaskDemand, TaskGeometry, dispatch, halve_rows

WIDEST = 16
"""Bytes of the largest slot; where there are no rows all threads read one slot."""

ENTRY = 4
"""Bytes of a number in a list."""


@dataclass
class StackPlacement:
    """Represent all data of an executable, except adstack sizes, that decide the memory layout of its adstacks.

    Attributes:
        kernel: Kernel that the adstacks belong to.
        layout: Byte offsets into the argument block.
        device: Numbers of the GPU.
        gated: Tasks that can run over a list.
        growths: Number of launches of the executable that made the heap larger.
    """

    kernel: Kernel
    layout: BlockLayout
    device: DeviceLimits
    gated: frozenset[int] = frozenset()
    growths: int = 0

    def demands(self, sizes: Sizes) -> dict[int, TaskDemand]:
        """Return the adstack memory and iteration counts of each parallel task with adstacks, by task."""
        return {
            task: self._demand(task, [s for s in self.layout.stacks if s.task == task], sizes)
            for task in dict.fromkeys(task for task, _ in self.layout.rows)
            if self.kernel.tasks[task].is_parallel
        }

    def _demand(self, task: int, stacks: list[StackLayout], sizes: Sizes) -> TaskDemand:
        """Return the adstack memory and iteration counts of a task with the given adstacks."""
        slots = [stack_capacity(s, sizes) for s in stacks]
        row = sum(s.slot_bytes * k for s, k in zip(stacks, slots))
        pushed = [total_pushes(s, k, sizes) for s, k in zip(stacks, slots)]
        content = [s.slot_bytes * k for s, k in zip(stacks, pushed) if k is not None]
        passing = [sizes.rows.get((task, slab)) for slab in dict.fromkeys(s.slab for s in stacks)]
        known = [k for k in passing if k is not None]
        return TaskDemand(
            row,
            max(known) if len(known) == len(passing) else None,
            sum(content) if len(content) == len(stacks) else None,
            sizes.iterations.get(task),
            self.can_list(task, sizes),
        )

    def can_list(self, task: int, sizes: Sizes) -> bool:
        """Return True if a launch with these sizes can run the task over a list of iterations that pass its gate."""
        return task in self.gated

    def dispatches(self, sizes: Sizes) -> dict[int, TaskGeometry]:
        """Return the numbers of rows and list entries of each task with adstacks; a serial task has one row."""
        found = {task: TaskGeometry(1) for task, _ in self.layout.rows}
        return found | {task: dispatch(d, self.device) for task, d in self.demands(sizes).items()}

    def halve(self, geometry: TaskGeometry) -> TaskGeometry:
        """Return the geometry of a task with half the rows, or the same geometry if there is only one row."""
        return halve_rows(geometry)

    def iterations(self, sizes: Sizes, arrays: Arrays, scalars: Scalars) -> Mapping[int, int]:
        """Return the iteration counts of parallel tasks with adstacks, by task, if they are known before a launch."""
        return sizes.iterations

    def refusal(self, plan: StackPlan, reason: str) -> DeviceError:
        """Return the error for a plan that needs too much memory; it names the adstack that takes the most."""
        size, slots, index = plan.widest
        return DeviceError(memory_refusal(self.kernel, self.layout.stacks[index], slots, size, reason))


def gated_tasks(kernel: Kernel, layout: BlockLayout) -> frozenset[int]:
    """Return the gated tasks that can run over a list of the iterations that pass the gate."""
    return frozenset(k for k in layout.list_at if gate_of(kernel.tasks[k]) is not None)


def place(kernel: Kernel, layout: BlockLayout, device: DeviceLimits) -> StackPlacement:
    """Return the StackPlacement of a kernel on a device."""
    return StackPlacement(kernel, layout, device, gated_tasks(kernel, layout))


def rows_in_flight(placement: StackPlacement, task: int, sizes: Sizes) -> Concurrency:
    """Return the number of rows that a task uses at once, which is also its number of threads.

    An iteration begins when the iteration before it has given the row back.
    """
    if not placement.kernel.tasks[task].is_parallel:
        return Concurrency(1)
    return Concurrency(placement.dispatches(sizes)[task].rows)


@dataclass
class StackPlan:
    """Represent the memory layout of the adstacks in one launch: argument block words, slab bytes, iteration lists.

    Attributes:
        dispatches: How each task runs.
        words: Words with their byte offsets in the block.
        needs: Bytes by slab.
        by_task: Bytes of the rows by task and slab.
        lists: Place of the list of each task in the integer slab, in bytes.
        widest: Bytes of the stack that takes most, its slots and its number.
    """

    dispatches: Mapping[int, TaskGeometry]
    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    by_task: dict[tuple[int, str], int] = field(default_factory=dict)
    lists: dict[int, int] = field(default_factory=dict)
    widest: tuple[int, int, int] = (0, 0, -1)

    def need(self, slab: str, size: int) -> None:
        """Raise the planned size of a slab to at least `size` bytes."""
        self.needs[slab] = max(self.needs.get(slab, 0), size)


def plan(layout: BlockLayout, sizes: Sizes, dispatches: Mapping[int, TaskGeometry]) -> StackPlan:
    """Compute the offset and capacity of every adstack of a kernel, and the bytes of each slab.

    Args:
        layout: Byte offsets into the argument block.
        sizes: Capacities and rows of the adstacks.
        dispatches: How each task runs.
    """
    out = StackPlan(dispatches)
    groups: dict[tuple[int, str], list[StackLayout]] = {key: [] for key in layout.rows}
    for stack in layout.stacks:
        groups[stack.task, stack.slab].append(stack)
    for (task, slab), stacks in groups.items():
        rows = dispatches[task].rows
        stride = _place(out, stacks, sizes, rows)
        out.words += ((layout.rows[task, slab], rows if stride else 0), (layout.strides[task, slab], stride))
        out.by_task[task, slab] = rows * stride
        out.need(slab, rows * stride)
    for task, at in layout.threads_at.items():
        if task in dispatches:
            out.words.append((at, dispatches[task].rows))
    for task in layout.list_at:
        _list(out, layout, task, out.by_task.get((task, "integer"), 0))
    return out


def _place(out: StackPlan, stacks: list[StackLayout], sizes: Sizes, rows: int) -> int:
    """Place the stacks of a task one after another in a row of a slab; return the bytes of the row."""
    # Where there is a whole number of warps any offset is aligned. Elsewhere each offset is a multiple of its slot,
    # since a stack without slots, of any type, may be read at it.
    offset, placed = 0, dict[int, int]()
    void: list[StackLayout] = []
    for stack in stacks:
        slots, size = stack_capacity(stack, sizes), stack.slot_bytes
        if not slots:
            void.append(stack)
            continue
        if rows % WARP:
            offset = _round(offset, min(size, ALIGN))
        placed.setdefault(size, offset)
        out.words += ((stack.capacity_at, slots), (stack.offset_at, offset))
        offset += slots * size
        if slots * size * rows > out.widest[0]:
            out.widest = slots * size * rows, slots, stack.index
    places, end = void_places([s.slot_bytes for s in void], placed, offset)
    for stack in void:
        out.words += ((stack.capacity_at, 0), (stack.offset_at, places[stack.slot_bytes]))
    return end


def _list(out: StackPlan, layout: BlockLayout, task: int, begin: int) -> None:
    """Reserve memory for a task's list of iterations in the integer slab, after the rows."""
    room = out.dispatches[task].listed
    out.words.append((layout.room_at[task], room))
    if room:
        out.lists[task] = begin = _round(begin, ENTRY)
        out.need("integer", begin + room * ENTRY)


def _round(size: int, to: int) -> int:
    """Return the size rounded up to a multiple of `to`."""
    return -(-size // to) * to


def bind(
    block: ArgumentBlock,
    placement: StackPlacement,
    sizes: Sizes,
    heap: DeviceHeap,
    iterations: Mapping[int, int] | None = None,
) -> None:
    """Reserve adstack memory and write its addresses and capacities into the block, unless the block has them.

    The caller holds the heap's lock until it has launched.

    Args:
        block: Block of the launch.
        placement: Placement of the kernel.
        sizes: Capacities and rows of the adstacks.
        heap: Heap that the rows lie in.
        iterations: Iterations of parallel tasks with stacks, by task; None for those of `sizes`.

    Raises:
        DeviceError: The memory cannot be had; nothing is launched.
    """
    iterations = sizes.iterations if iterations is None else iterations
    key = heap.epoch, dict(sizes.capacities), dict(sizes.rows), dict(sizes.totals), dict(iterations)
    if block.stacks_key == key:
        return
    block.stacks_key = None
    layout = placement.layout
    found = _reserve(placement, replace(sizes, iterations=iterations), heap)
    for at, word in found.words:
        block.put(at, word)
    for slab, at in layout.slabs.items():
        block.put(at, heap.base(slab, WIDEST))
    for task, begin in found.lists.items():
        block.put(layout.list_at[task], heap.base("integer") + begin)
    # Reserving may have changed the epoch of the heap.
    block.stacks_key = heap.epoch, *key[1:]


def _reserve(placement: StackPlacement, sizes: Sizes, heap: DeviceHeap) -> StackPlan:
    """Reserve adstack memory and return the plan; while memory is short, halve the rows and try again."""
    dispatches = placement.dispatches(sizes)
    while True:
        found = plan(placement.layout, sizes, dispatches)
        try:
            placement.growths += heap.reserve(found.needs)
            return found
        except HeapRefusal as problem:
            fewer = {task: placement.halve(one) for task, one in dispatches.items()}
            if fewer == dispatches:
                raise placement.refusal(found, str(problem)) from problem
            dispatches = fewer
