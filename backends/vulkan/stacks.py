"""Where adstacks lie on a Vulkan device, and how many threads a task has: a row for each thread, slots interleaved.

    address of slot k = slab + offset · rows + (k · rows + row) · slot

Tasks run one after another and share the slabs. A task of which it is known that no iteration needs a row gets stacks
of capacity 0: a push onto one is an overflow, not a stray write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from ...compiler.errors import DeviceError
from ...compiler.ir.nodes import Kernel
from ..base import Sizes
from ..heap import HeapRefusal
from ..llvm.layout import Layout, Stack
from ..llvm.stack_sizes import capacity, refusal
from ..llvm.void_stacks import void_places
from ..spirv.shaders import LOCAL_SIZE

ENTRY = 4
"""Bytes of a number in a list."""

WIDEST = 16
"""Bytes of the largest slot. Where there are no rows all threads read one slot."""


class Slabs(Protocol):
    """A heap."""

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Make every slab so large; gives whether one grew. Raises HeapRefusal."""


@dataclass
class Plan:
    """Numbers of one launch: words by their place in the block, bytes by slab, threads of tasks with stacks; by task,
    where its list of iterations begins in the integer slab.

    by_task: bytes by task and slab. widest: bytes of the stack that takes most, its slots and its number.
    """

    threads: Mapping[int, int]
    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    by_task: dict[tuple[int, str], int] = field(default_factory=dict)
    lists: dict[int, int] = field(default_factory=dict)
    widest: tuple[int, int, int] = (0, 0, -1)


NONE: Mapping[int, int] = MappingProxyType({})


def plan(layout: Layout, sizes: Sizes, threads: Mapping[int, int], rooms: Mapping[int, int] = NONE) -> Plan:
    """Place every stack. threads: rows of each task with stacks. rooms: numbers in the list of each task; 0: none."""
    out = Plan(threads)
    for task, slab in layout.rows:
        row = _place(out, [s for s in layout.stacks if (s.task, s.slab) == (task, slab)], sizes, threads[task])
        out.words += ((layout.rows[task, slab], threads[task] if row else 0), (layout.strides[task, slab], row))
        if row:
            out.by_task[task, slab] = threads[task] * row
            out.needs[slab] = max(out.needs.get(slab, 0), out.by_task[task, slab])
    for task, at in layout.room_at.items():
        _list(out, task, at, rooms.get(task, 0))
    return out


def _place(out: Plan, stacks: list[Stack], sizes: Sizes, rows: int) -> int:
    """Stacks of a task one after another in a row of a slab; gives its bytes."""
    offset, placed = 0, dict[int, int]()
    slots = {s.index: capacity(s, sizes) for s in stacks}
    for stack in (s for s in stacks if slots[s.index]):
        held, size = slots[stack.index], stack.slot_bytes
        offset = -(-offset // size) * size
        placed.setdefault(size, offset)
        out.words += ((stack.capacity_at, held), (stack.offset_at, offset))
        offset += held * size
        out.widest = max(out.widest, (held * size * rows, held, stack.index))
    void = [s for s in stacks if not slots[s.index]]
    places, end = void_places([s.slot_bytes for s in void], placed, offset)
    for stack in void:
        out.words += ((stack.capacity_at, 0), (stack.offset_at, places[stack.slot_bytes]))
    return end


def _list(out: Plan, task: int, room_at: int, room: int) -> None:
    """Room for the list of a task behind all rows of the integer slab."""
    out.words.append((room_at, room))
    if room:
        out.lists[task] = begin = -(-out.needs.get("integer", 0) // ENTRY) * ENTRY
        out.needs["integer"] = begin + room * ENTRY


def reserve(
    kernel: Kernel,
    layout: Layout,
    sizes: Sizes,
    threads: Mapping[int, int],
    heap: Slabs,
    rooms: Mapping[int, int] = NONE,
) -> tuple[Plan, bool]:
    """(the plan for which there is memory, whether the heap grew): fewer threads where rows for all cannot be had.

    Raises DeviceError, with the stack that wants most, where there is none for one group of threads.
    """
    while True:
        found = plan(layout, sizes, threads, rooms)
        try:
            return found, heap.reserve(found.needs)
        except HeapRefusal as problem:
            half = {task: fewer(k) for task, k in threads.items()}
            if half == threads:
                size, slots, index = found.widest
                reason = refusal(kernel, layout.stacks[index], slots, size, str(problem))
                raise DeviceError(reason) from problem
            threads = half


def fewer(threads: int) -> int:
    """Half of the threads of a task, in whole groups; as many where there is one group."""
    return max(LOCAL_SIZE, threads // 2 // LOCAL_SIZE * LOCAL_SIZE) if threads > LOCAL_SIZE else threads


def slab_words(layout: Layout, base: Callable[[str], int]) -> list[tuple[int, int]]:
    """Addresses of the slabs, by place in the block."""
    return [(at, base(slab)) for slab, at in layout.slabs.items()]
