"""Where adstacks lie on a CPU: each row contiguous, rows of a task one after another in each slab.

One row per thread in flight, of which there is one. A task of which it is known that no iteration needs a row gets
none, and its stacks have capacity 0: a push onto one is an overflow, not a stray write.
"""
from __future__ import annotations

from ..base import Sizes
from ..heap import Heap
from ..llvm.layout import ALIGN, Layout, Stack
from .block import Block

THREADS = 1
"""Rows in flight at once."""


def capacity(stack: Stack, sizes: Sizes) -> int:
    """Slots of a stack: what the sizes say, else the literal of its declaration, else none.

    A stack of which nothing is known is one that no push was counted on: a push overflows and is reported.
    """
    if sizes.rows.get((stack.task, stack.slab)) == 0:
        return 0
    return max(sizes.capacities.get(stack.alloca.stack, stack.alloca.capacity or 0), 0)


def bind(block: Block, layout: Layout, sizes: Sizes, heap: Heap, kernel: str) -> None:
    """Reserve memory and write offsets, capacities and bases into the block, unless they stand there already.

    Raises DeviceError before anything runs if the memory cannot be had. The caller holds the heap's lock.
    """
    key = heap.epoch, dict(sizes.capacities), dict(sizes.rows)
    if block.stacks_key == key:
        return
    block.stacks_key = None
    needs: dict[str, int] = {}
    widest: tuple[int, str] = (0, "")
    for task, slab in layout.rows:
        offset = 0
        for stack in layout.stacks:
            if (stack.task, stack.slab) == (task, slab):
                slots = capacity(stack, sizes)
                size = -(-slots * stack.slot_bytes // 8) * 8
                block.put(stack.capacity_at, min(slots, (1 << 63) - 1))
                block.put(stack.offset_at, (offset if slots else 0) & ((1 << 63) - 1))
                offset += size
                widest = max(widest, (size, stack.alloca.variable or stack.alloca.stack))
        stride = -(-offset // ALIGN) * ALIGN
        block.put(layout.rows[task, slab], THREADS if stride else 0)
        block.put(layout.strides[task, slab], stride & ((1 << 63) - 1))
        needs[slab] = max(needs.get(slab, 0), THREADS * stride)
    heap.reserve(needs, f"kernel {kernel} (most of it for the history of {widest[1]})")
    for slab, at in layout.slabs.items():
        block.put(at, heap.slabs[slab].base or block.address + layout.pad_at)
    block.stacks_key = heap.epoch, key[1], key[2]
