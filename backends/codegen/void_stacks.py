"""This module finds an address that no thread writes, for reads of adstacks without slots on GPUs.

A read below an empty stack is discarded, but it is made, at slot 0. With the address of slot k

    slab + offset · rows + (k · rows + row) · slot

slot 0 of a stack that has none lies at offset · rows + row · slot. At the offset of a stack whose slots are as large
that is the row's own. At the offset of any other one it would belong to another row, and be read while that one's
thread writes to it: then the row is longer by a slot that no thread writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ALIGN = 8
"""Alignment of every slot in bytes."""


def void_places(sizes: Collection[int], placed: Mapping[int, int], end: int) -> tuple[dict[int, int], int]:
    """Return the offsets in a row at which adstacks without slots are read, by slot size, and the row's bytes.

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
