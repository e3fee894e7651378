"""This module finds an address that no thread writes, for reads of adstacks without slots on GPUs.

A read of an empty stack is made, at slot 0, and its result discarded. The address of slot k is

    slab + offset · rows + (k · rows + row) · slot

Slot 0 of a stack without slots is read at offset · rows + row · slot. If the offset is that of another stack of the row
with slots of the same size, the address belongs to the row itself. At any other offset the address may belong to
another row, whose thread may be writing there. If no stack of the row has slots of this size, the row is therefore made
longer by a slot that no thread writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ALIGN = 8
"""Alignment of every slot in bytes."""


def void_places(sizes: Collection[int], placed: Mapping[int, int], end: int) -> tuple[dict[int, int], int]:
    """Return the offsets in a row at which adstacks without slots are read, by slot size, and the row's bytes.

    Code may read the top of an empty adstack without using the value, so that a readable address must be there.

    Args:
        sizes: Bytes that a slot of each stack without slots would have.
        placed: Offset of a stack of the row that has slots, by the bytes of its slots.
        end: Bytes of the row so far.

    Returns:
        (offsets at which stacks without slots are read, by the bytes that a slot would have; bytes of the row).
    """
    # Where the row has no stack with slots, all threads read what the slab holds in front, and no thread writes it.
    missing = [size for size in sizes if size not in placed]
    if not placed or not missing:
        return {size: placed.get(size, 0) for size in sizes}, end
    spare = -(-end // ALIGN) * ALIGN
    return {size: placed.get(size, spare) for size in sizes}, spare + max(missing)
