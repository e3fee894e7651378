"""The argument block of a launch on a Vulkan device, in memory of the host: bound to addresses of the host.

Invariant: a slot for an array holds an address of mapped memory, or, for a foreign array while a launch of it is under
way, that of its copy there; never one of plain host memory that has bytes when a launch starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..cpu.block import Block, Bound
from ..llvm.layout import Layout
from .mapped import owner_of
from .queue import Queue
from .staging import Staging


def laid_out(layout: Layout) -> Layout:
    """The layout of a whole block: behind what shaders see, the address of the ring, and a code of the driver."""
    passed = layout.size
    return replace(layout, passed=passed, driver_at=passed, driver_error_at=passed + 8, size=passed + 16)


class VulkanBlock(Block):
    """A block, and which of its arrays are foreign, by name."""

    def __init__(self, layout: Layout, kernel: str, written: set[str], queue: Queue) -> None:
        super().__init__(layout, kernel, written)
        self.queue = queue
        self.foreign: dict[str, Bound] = {}
        self._shared: dict[str, list[bool]] = {}

    def _place(self, bound: Bound, array: np.ndarray) -> None:
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
        """Whether others may touch an array of this launch when it returns."""
        return any(self._shared.values())

    @contextmanager
    def staged(self) -> Iterator[None]:
        """Copies of foreign arrays stand in the block inside; what was written is copied back, also after an error."""
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
            self.queue.finish()
            staging.release()
            for bound in self.foreign.values():  # the next launch binds it anew
                bound.held = None
