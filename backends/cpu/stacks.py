"""Where adstacks lie on a CPU: each row contiguous, rows of a task one after another in each slab.

A row belongs to a thread of the launch. Tasks run one after another, so
they share a slab. A task of which it is known that no iteration needs a row gets none, and its
stacks have capacity 0: a push onto one is an overflow, not a stray write.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from ...compiler.errors import DeviceError
from ...compiler.ir.nodes import Kernel
from ..base import Flight, Sizes
from ..heap import Heap, HeapRefusal
from ..llvm.layout import ALIGN, Layout, Stack
from .block import Block

GAP = 0
"""Bytes that are left free behind each stack: tests look there for stray writes."""

_WORD = (1 << 63) - 1


def capacity(stack: Stack, sizes: Sizes) -> int:
    """Slots of a stack: what the sizes say, else the literal of its declaration, else none.

    A stack of which nothing is known is one that no push was counted on: a push overflows and is reported.
    """
    if sizes.rows.get((stack.task, stack.slab)) == 0:
        return 0
    return max(sizes.capacities.get(stack.alloca.stack, stack.alloca.capacity or 0), 0)


@dataclass
class Plan:
    """Numbers of one launch: words by their place in the block, and bytes by slab."""

    words: list[tuple[int, int]] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    widest: tuple[int, int] = (0, -1)
    """Bytes of the stack that takes most, and its number."""
    flights: dict[int, Flight] = field(default_factory=dict)


def plan(layout: Layout, sizes: Sizes) -> Plan:
    """Place every stack."""
    out = Plan()
    for task in sorted({task for task, _ in layout.rows}):
        out.flights[task] = Flight()
    for task, slab in layout.rows:
        _place_slab(out, layout, sizes, task, slab)
    return out


def _place_slab(out: Plan, layout: Layout, sizes: Sizes, task: int, slab: str) -> None:
    """Stacks of a task one after another in its rows of a slab, each aligned to its own type."""
    lanes, offset = out.flights[task].lanes, 0
    places = out.flights[task].threads * lanes
    for stack in layout.stacks:
        if (stack.task, stack.slab) == (task, slab):
            slots = capacity(stack, sizes)
            offset = _round(offset, min(stack.alloca.dtype.size, 8))
            out.words.append((stack.capacity_at, slots))
            out.words.append((stack.offset_at, offset if slots else 0))
            offset += slots * stack.slot_bytes + GAP
            out.widest = max(out.widest, (slots * stack.slot_bytes * places, stack.index))
    stride = _round(offset, ALIGN if lanes == 1 else 8)
    out.words.append((layout.rows[task, slab], places if stride else 0))
    out.words.append((layout.strides[task, slab], stride))
    out.needs[slab] = max(out.needs.get(slab, 0), places * stride)


def _round(size: int, to: int) -> int:
    return -(-size // to) * to


def bind(block: Block, layout: Layout, sizes: Sizes, heap: Heap, kernel: Kernel) -> None:
    """Reserve memory and write offsets, capacities and bases into the block, unless they stand there already.

    Raises DeviceError before anything runs if the memory cannot be had. The caller holds the heap's lock.
    """
    key = heap.epoch, dict(sizes.capacities), dict(sizes.rows), dict(sizes.totals)
    if block.stacks_key == key:
        return
    block.stacks_key = None
    for at, word in _reserve(layout, sizes, heap, kernel).words:
        block.put(at, min(word, _WORD))
    for slab, at in layout.slabs.items():
        block.put(at, heap.slabs[slab].base or block.address + layout.pad_at)
    block.stacks_key = heap.epoch, *key[1:]


def _reserve(layout: Layout, sizes: Sizes, heap: Heap, kernel: Kernel) -> Plan:
    """The plan, with memory for it."""
    found = plan(layout, sizes)
    try:
        heap.reserve(found.needs, kernel.name)
    except HeapRefusal as problem:
        raise DeviceError(_refused(layout, sizes, found, kernel, str(problem))) from None
    return found


def _refused(layout: Layout, sizes: Sizes, found: Plan, kernel: Kernel, reason: str) -> str:
    """Which stack wants most, where it is, and what can be done."""
    size, index = found.widest
    stack = layout.stacks[index]
    span = kernel.span(stack.alloca.loc)
    name, place = stack.alloca.variable or stack.alloca.stack, f", {span.file}:{span.line}" if span else ""
    head = f"kernel {kernel.name}, task {stack.task}: {reason}; nothing was run"
    most = f"most of it, {size} bytes, for the history of {name}{place}"
    slots = f"{capacity(stack, sizes)} slots of {stack.slot_bytes} bytes for each iteration in flight"
    text = "\n".join(span.render().splitlines()[1:]) if span else ""
    cure = "run fewer steps of the loop per launch, or keep its state in a field and launch once a step"
    return f"{head}\n    {most}: {slots}\n" + (f"{text}\n" if text else "") + f"    cure: {cure}"
