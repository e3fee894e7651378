"""Where a stack without slots is read, where slots of neighbouring rows lie side by side.

A read below an empty stack is discarded, but it is made, at slot 0. With the address of slot k

    slab + offset · rows + (k · rows + row) · slot

slot 0 of a stack that has none lies at offset · rows + row · slot. At the offset of a stack whose slots are as large
that is the row's own. At the offset of any other one it would belong to another row, and be read while that one's
thread writes there: then the row is longer by a slot that nobody writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ALIGN = 8
"""Of every slot."""


def void_places(sizes: Collection[int], placed: Mapping[int, int], end: int) -> tuple[dict[int, int], int]:
    """(offsets at which stacks without slots are read, by the bytes that a slot would have; bytes of the row).

    sizes: of such slots. placed: offset of a stack with slots of a row, by their bytes. end: bytes of the row so far.
    Where the row has none, there is none to be read: all threads read what the slab holds in front.
    """
    missing = [size for size in sizes if size not in placed]
    if not placed or not missing:
        return {size: placed.get(size, 0) for size in sizes}, end
    spare = -(-end // ALIGN) * ALIGN
    return {size: placed.get(size, spare) for size in sizes}, spare + max(missing)
