"""Where adstacks lie on a device: slots of neighbouring rows side by side, rows of the threads of a task.

    address of slot k = slab + offset · rows + (k · rows + row) · slot

with the row of a thread its own number, and the offset in bytes of one row. So the threads of a warp touch one run of
memory at each step. Tasks run one after another and share a slab; a task that runs over a list of passing iterations
has that behind its rows in the integer slab. A task of which it is known that no iteration needs a row gets none, and
its stacks have capacity 0: a push onto one is an overflow, not a stray write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...compiler.errors import DeviceError
from ...compiler.ir.nodes import Kernel
from ..base import Flight, Sizes
from ..cpu.block import Block
from ..heap import HeapRefusal
from ..llvm.layout import Layout, Stack
from ..llvm.stack_sizes import capacity, refusal, total
from ..llvm.void_stacks import ALIGN, void_places
from .heap import DeviceHeap
from .policy import WARP, Demand, Device, Dispatch, dispatch, halved
from .selection import gate_of

WIDEST = 16
"""Bytes of the largest slot. Where there are no rows all threads read one slot."""

ENTRY = 4
"""Bytes of a number in a list."""


@dataclass
class Placement:
    """What decides where the adstacks of one executable lie, beside the sizes of a launch.

    gated: tasks that can run over a list. growths: how often launches of the executable made the heap larger.
    """

    kernel: Kernel
    layout: Layout
    device: Device
    gated: frozenset[int] = frozenset()
    growths: int = 0

    def demands(self, sizes: Sizes) -> dict[int, Demand]:
        """What each parallel task with stacks asks for."""
        return {
            task: self._demand(task, [s for s in self.layout.stacks if s.task == task], sizes)
            for task in dict.fromkeys(task for task, _ in self.layout.rows)
            if self.kernel.tasks[task].is_parallel
        }

    def _demand(self, task: int, stacks: list[Stack], sizes: Sizes) -> Demand:
        slots = [capacity(s, sizes) for s in stacks]
        row = sum(s.slot_bytes * k for s, k in zip(stacks, slots))
        pushed = [total(s, k, sizes) for s, k in zip(stacks, slots)]
        content = [s.slot_bytes * k for s, k in zip(stacks, pushed) if k is not None]
        passing = [sizes.rows.get((task, slab)) for slab in dict.fromkeys(s.slab for s in stacks)]
        known = [k for k in passing if k is not None]
        return Demand(
            row,
            max(known) if len(known) == len(passing) else None,
            sum(content) if len(content) == len(stacks) else None,
            sizes.iterations.get(task),
            task in self.gated,
        )

    def dispatches(self, sizes: Sizes) -> dict[int, Dispatch]:
        """How each task with stacks runs. A serial one has a thread and a row."""
        found = {task: Dispatch(1) for task, _ in self.layout.rows}
        return found | {task: dispatch(d, self.device) for task, d in self.demands(sizes).items()}


def place(kernel: Kernel, layout: Layout, device: Device) -> Placement:
    """The placement of a kernel on a device."""
    parallel = (k for k in layout.list_at if gate_of(kernel.tasks[k]) is not None)
    return Placement(kernel, layout, device, frozenset(parallel))


def rows_in_flight(kernel: Kernel, layout: Layout, task: int, sizes: Sizes, device: Device) -> Flight:
    """A row for each thread: an iteration begins when the one before it has given it back."""
    return Flight(place(kernel, layout, device).dispatches(sizes)[task].rows)


@dataclass
class Plan:
    """Numbers of one launch: words by their place in the block, and bytes by slab.

    rows: most of a task that has some. lists: by task, where its list begins in the integer slab. widest: bytes of the
    stack that takes most, and its number.
    """

    dispatches: Mapping[int, Dispatch]
    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    lists: dict[int, int] = field(default_factory=dict)
    widest: tuple[int, int] = (0, -1)

    def need(self, slab: str, size: int) -> None:
        """Have room for so many bytes."""
        self.needs[slab] = max(self.needs.get(slab, 0), size)


def plan(layout: Layout, sizes: Sizes, dispatches: Mapping[int, Dispatch]) -> Plan:
    """Place every stack."""
    out = Plan(dispatches)
    groups: dict[tuple[int, str], list[Stack]] = {key: [] for key in layout.rows}
    for stack in layout.stacks:
        groups[stack.task, stack.slab].append(stack)
    ends: dict[int, int] = {}
    for (task, slab), stacks in groups.items():
        rows = dispatches[task].rows
        stride = _place(out, stacks, sizes, rows)
        out.words += ((layout.rows[task, slab], rows if stride else 0), (layout.strides[task, slab], stride))
        out.need(slab, rows * stride)
        if slab == "integer":
            ends[task] = rows * stride
    for task, at in layout.threads_at.items():
        if task in dispatches:
            out.words.append((at, dispatches[task].rows))
    for task in layout.list_at:
        _list(out, layout, task, ends.get(task, 0))
    return out


def _place(out: Plan, stacks: list[Stack], sizes: Sizes, rows: int) -> int:
    """Stacks of a task one after another in a row of a slab; gives its bytes.

    Where there is a whole number of warps any offset is aligned; else each is as its slots are large, since a stack
    without slots, of any type, may be read there.
    """
    offset, placed = 0, dict[int, int]()
    void: list[Stack] = []
    for stack in stacks:
        slots, size = capacity(stack, sizes), stack.slot_bytes
        if not slots:
            void.append(stack)
            continue
        if rows % WARP:
            offset = _round(offset, min(size, ALIGN))
        placed.setdefault(size, offset)
        out.words += ((stack.capacity_at, slots), (stack.offset_at, offset))
        offset += slots * size
        if slots * size * rows > out.widest[0]:
            out.widest = slots * size * rows, stack.index
    places, end = void_places([s.slot_bytes for s in void], placed, offset)
    for stack in void:
        out.words += ((stack.capacity_at, 0), (stack.offset_at, places[stack.slot_bytes]))
    return end


def _list(out: Plan, layout: Layout, task: int, begin: int) -> None:
    """Room for the list of a task behind its rows."""
    room = out.dispatches[task].listed
    out.words.append((layout.room_at[task], room))
    if room:
        out.lists[task] = begin = _round(begin, ENTRY)
        out.need("integer", begin + room * ENTRY)


def _round(size: int, to: int) -> int:
    return -(-size // to) * to


def bind(block: Block, placement: Placement, sizes: Sizes, heap: DeviceHeap) -> None:
    """Reserve memory and write offsets, capacities and bases into the block, unless they stand there already.

    Raises DeviceError before anything is launched if the memory cannot be had. The caller holds the heap's lock until
    it has launched.
    """
    key = heap.epoch, dict(sizes.capacities), dict(sizes.rows), dict(sizes.totals), dict(sizes.iterations)
    if block.stacks_key == key:
        return
    block.stacks_key = None
    layout = placement.layout
    found = _reserve(placement, sizes, heap)
    for at, word in found.words:
        block.put(at, word)
    for slab, at in layout.slabs.items():
        block.put(at, heap.base(slab, WIDEST))
    for task, begin in found.lists.items():
        block.put(layout.list_at[task], heap.base("integer") + begin)
    block.stacks_key = heap.epoch, *key[1:]


def _reserve(placement: Placement, sizes: Sizes, heap: DeviceHeap) -> Plan:
    """The plan for which there is memory: what suits the device, else with half the rows, down to one a task."""
    dispatches = placement.dispatches(sizes)
    while True:
        found = plan(placement.layout, sizes, dispatches)
        try:
            placement.growths += heap.reserve(found.needs)
            return found
        except HeapRefusal as problem:
            fewer = {task: halved(one) for task, one in dispatches.items()}
            if fewer == dispatches:
                size, index = found.widest
                stack = placement.layout.stacks[index]
                slots = capacity(stack, sizes)
                raise DeviceError(refusal(placement.kernel, stack, slots, size, str(problem))) from problem
            dispatches = fewer
