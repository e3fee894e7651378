"""This module holds the argument block of a launch on a GPU: it knows which arrays the device cannot use in place.

Invariant: when a launch starts, the word of an array holds an address of memory that the device reaches; for an
external array it is that of a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import numpy as np

from ..codegen.layout import BlockLayout
from ..host.block import ArgumentBlock, BoundArray
from .queue import DeviceQueue
from .shared_memory import owner_of


class DeviceBlock(ArgumentBlock, ABC):
    """Represent an argument block that knows which of its arrays are external.

    Attributes:
        queue: Queue of the launches.
        foreign: Arrays that launches work on copies of, by name.
    """

    def __init__(self, layout: BlockLayout, kernel: str, written: set[str], queue: DeviceQueue, size: int = 0) -> None:
        """Allocate the block; `size` is its number of bytes if more than the layout needs."""
        super().__init__(layout, kernel, written, size)
        self.queue = queue
        self.foreign: dict[str, BoundArray] = {}
        self._shared: dict[str, list[bool]] = {}

    def _place(self, bound: BoundArray, array: np.ndarray) -> None:
        """Write the address and extents of an array to the block, and record whether the array is external."""
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
        """Return True if foreign code may access an array of this launch as soon as the call returns."""
        return any(self._shared.values())

    def _foreign_arrays(self) -> dict[str, np.ndarray]:
        """Return the external arrays of the launch by name; the caller of the launch keeps them alive."""
        arrays = {}
        for name, bound in self.foreign.items():
            array = None if bound.held is None else bound.held()
            assert array is not None
            arrays[name] = array
        return arrays

    @abstractmethod
    def staged(self) -> AbstractContextManager[None]:
        """Replace external arrays by device copies during the `with` block; then copy the written arrays back."""
