"""This module builds the argument block of a launch in host memory; its slots hold host addresses of arrays.

Invariant: the slot of an array holds an address of mapped memory; for an external array, while a launch on it is under
way, it holds the address of the copy in mapped memory. When a launch starts, no slot holds an address of plain host
memory that has bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..codegen.layout import BlockLayout
from ..host.block import ArgumentBlock, BoundArray
from .mapped_memory import owner_of
from .queue import Queue
from .staging import Staging


def block_layout(layout: BlockLayout) -> BlockLayout:
    """Return the layout of an argument block, with two words at its end that shaders do not read.

    These two slots hold the address of the ring and an error code of the driver.
    """
    passed = layout.size
    return replace(layout, passed=passed, driver_at=passed, driver_error_at=passed + 8, size=passed + 16)


class VulkanBlock(ArgumentBlock):
    """Represent an argument block that records which of its arrays are in memory that kernels cannot use in place.

    Attributes:
        queue: queue of the launches
        foreign: bound external arrays, by name
    """

    def __init__(self, layout: BlockLayout, kernel: str, written: set[str], queue: Queue) -> None:
        super().__init__(layout, kernel, written)
        self.queue = queue
        self.foreign: dict[str, BoundArray] = {}
        self._shared: dict[str, list[bool]] = {}

    def _place(self, bound: BoundArray, array: np.ndarray) -> None:
        """Bind an array to its slot, and record if kernels cannot use its memory in place."""
        super()._place(bound, array)
        name, owner = bound.array.name, owner_of(array)
        self.foreign.pop(name, None)
        self._shared.pop(name, None)
        if owner is not None and owner.queue is self.queue:
            self._shared[name] = owner.shared
        elif array.nbytes:
            self.foreign[name] = bound

    @property
    def is_shared(self) -> bool:
        """Return True if code outside of the runtime may access an array of this launch as soon as the call returns."""
        return any(self._shared.values())

    @contextmanager
    def staged(self) -> Iterator[None]:
        """Put copies of external arrays into the block for the `with` block, and copy written ones back at its end."""
        arrays = {}
        for name, bound in self.foreign.items():
            array = None if bound.held is None else bound.held()
            assert array is not None
            arrays[name] = array
        staging = Staging(self.queue.arena, arrays)
        try:
            staging.copy_in()
            for name, bound in self.foreign.items():
                self.put(bound.array.address_at, staging.address(name))
            yield
            for name in arrays:
                if name in self.written:
                    staging.copy_out(name)
        finally:
            # The device may still use the copies, also after an error.
            self.queue.finish()
            staging.release()
            # Without a held array the next launch binds it anew.
            for bound in self.foreign.values():
                bound.held = None
