"""This module computes the offsets of adstacks in Vulkan memory: each thread has a row, and rows are interleaved.

    address of slot k = slab + offset · rows + (k · rows + row) · slot

Tasks run one after another and share the slabs. A task of which it is known that no iteration needs a row gets stacks
of capacity 0: a push to such a stack is an overflow, not a stray write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from ...compiler.errors import DeviceError
from ...compiler.ir.nodes import Kernel
from ..base import Sizes
from ..codegen.layout import BlockLayout, StackLayout
from ..codegen.stack_sizes import memory_refusal, stack_capacity
from ..codegen.void_stacks import void_places
from ..heap import HeapRefusal
from ..spirv.shaders import LOCAL_SIZE

ENTRY = 4
"""Bytes of a number in a list."""

WIDEST = 16
"""Bytes of the largest slot; where there are no rows, all threads read one slot."""


class Slabs(Protocol):
    """Describe the interface of a heap that can reserve memory for slabs."""

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Make every slab at least as large as needed, and return True if a slab grew.

        Raises:
            HeapRefusal: if there is not enough memory
        """


@dataclass
class StackPlan:
    """Hold the offsets and sizes of the adstacks of one launch, and the memory that they need.

    Attributes:
        threads: threads of each task with stacks
        words: words to be written into the block, each with its place there
        needs: bytes of each slab
        by_task: bytes of each task and slab
        lists: offset of the list of iterations in the integer slab, by task
        widest: bytes of the stack that takes most, its slots and its number
    """

    threads: Mapping[int, int]
    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    by_task: dict[tuple[int, str], int] = field(default_factory=dict)
    lists: dict[int, int] = field(default_factory=dict)
    widest: tuple[int, int, int] = (0, 0, -1)


NONE: Mapping[int, int] = MappingProxyType({})


def plan(layout: BlockLayout, sizes: Sizes, threads: Mapping[int, int], rooms: Mapping[int, int] = NONE) -> StackPlan:
    """Return the plan that places every adstack of a kernel in its slab.

    Args:
        layout: layout of the argument block
        sizes: capacities of the stacks
        threads: rows of each task with stacks
        rooms: room of the list of each task, in numbers; 0 for no list
    """
    out = StackPlan(threads)
    for task, slab in layout.rows:
        row = _place(out, [s for s in layout.stacks if (s.task, s.slab) == (task, slab)], sizes, threads[task])
        out.words += ((layout.rows[task, slab], threads[task] if row else 0), (layout.strides[task, slab], row))
        if row:
            out.by_task[task, slab] = threads[task] * row
            out.needs[slab] = max(out.needs.get(slab, 0), out.by_task[task, slab])
    for task, at in layout.room_at.items():
        _list(out, task, at, rooms.get(task, 0))
    return out


def _place(out: StackPlan, stacks: list[StackLayout], sizes: Sizes, rows: int) -> int:
    """Place the adstacks of a task one after another in a row of a slab, and return the bytes of the row."""
    offset, placed = 0, dict[int, int]()
    slots = {s.index: stack_capacity(s, sizes) for s in stacks}
    for stack in (s for s in stacks if slots[s.index]):
        held, size = slots[stack.index], stack.slot_bytes
        offset = -(-offset // size) * size
        placed.setdefault(size, offset)
        out.words += ((stack.capacity_at, held), (stack.offset_at, offset))
        offset += held * size
        out.widest = max(out.widest, (held * size * rows, held, stack.index))
    # A stack without slots is read at a place with slots as large, in front of another stack or on its own.
    void = [s for s in stacks if not slots[s.index]]
    places, end = void_places([s.slot_bytes for s in void], placed, offset)
    for stack in void:
        out.words += ((stack.capacity_at, 0), (stack.offset_at, places[stack.slot_bytes]))
    return end


def _list(out: StackPlan, task: int, room_at: int, room: int) -> None:
    """Reserve room in the integer slab, after all rows, for the iteration list of a task."""
    out.words.append((room_at, room))
    if room:
        out.lists[task] = begin = -(-out.needs.get("integer", 0) // ENTRY) * ENTRY
        out.needs["integer"] = begin + room * ENTRY


def reserve(
    kernel: Kernel,
    layout: BlockLayout,
    sizes: Sizes,
    threads: Mapping[int, int],
    heap: Slabs,
    rooms: Mapping[int, int] = NONE,
) -> tuple[StackPlan, bool]:
    """Reserve adstack memory, with halved threads while memory is short. Return the plan, and True if the heap grew.

    Returns:
        The plan, and whether the heap grew.

    Raises:
        DeviceError: with the stack that takes most, if there is no memory for one group of threads
    """
    while True:
        found = plan(layout, sizes, threads, rooms)
        try:
            return found, heap.reserve(found.needs)
        except HeapRefusal as problem:
            half = {task: halve_threads(k) for task, k in threads.items()}
            if half == threads:
                size, slots, index = found.widest
                reason = memory_refusal(kernel, layout.stacks[index], slots, size, str(problem))
                raise DeviceError(reason) from problem
            threads = half


def halve_threads(threads: int) -> int:
    """Return half of a task's threads, rounded to whole workgroups, but at least one workgroup."""
    return max(LOCAL_SIZE, threads // 2 // LOCAL_SIZE * LOCAL_SIZE) if threads > LOCAL_SIZE else threads


def slab_words(layout: BlockLayout, base: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return (byte offset in the block, address) for each slab."""
    return [(at, base(slab)) for slab, at in layout.slabs.items()]
