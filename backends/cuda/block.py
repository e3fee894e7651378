"""This module holds the argument block of a launch on an NVIDIA GPU, and the device memory that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..codegen.layout import BlockLayout
from ..device.block import DeviceBlock
from ..host.block import BoundArray
from .borrowed import BorrowedMemory, lender_of
from .device import CudaDevice
from .graph_replay import EntryKey, block_bytes
from .launch_graphs import LaunchGraphs
from .memory import Buffers


class BlockState:
    """Represent the data of an argument block on the device: a device state for each stream, and CUDA graphs.

    It may outlive the block, whose last launch may be in flight.
    """

    def __init__(self, buffers: Buffers, graphs: LaunchGraphs) -> None:
        self.buffers, self.graphs = buffers, graphs
        self.states: dict[int, tuple[int, int]] = {}

    def give_back(self) -> None:
        """Free the device memory of the argument block, which no launch may use any longer."""
        self.graphs.release()
        for address, size in self.states.values():
            self.buffers.give(address, size)
        self.states = {}


class CudaBlock(DeviceBlock):
    """Represent the argument block of a launch on an NVIDIA GPU.

    Attributes:
        borrowed: Arrays in memory of the GPU that belong to other libraries, by name.
        owned: Memory and CUDA graphs that belong to the block on the device.
        graphs: Graph of the block's launches.
    """

    def __init__(
        self,
        layout: BlockLayout,
        kernel: str,
        written: set[str],
        device: CudaDevice,
        buffers: Buffers,
        keys: Sequence[EntryKey],
    ) -> None:
        """Allocate the block; `keys` are the entry points of the kernel, in order."""
        super().__init__(layout, kernel, written, device, block_bytes(layout, len(keys)))
        self.device, self.buffers = device, buffers
        self.borrowed: dict[str, BoundArray] = {}
        self.owned = BlockState(buffers, LaunchGraphs(device, keys))
        self.graphs = self.owned.graphs
        self.graphs.begin(self)
        self.put(layout.driver_at, device.table_address)
        self.put(layout.halted_at, device.halted)

    def _place(self, bound: BoundArray, array: np.ndarray) -> None:
        """Write the address and extents of an array to the block, and record if it is managed, borrowed or external."""
        super()._place(bound, array)
        name = bound.array.name
        self.borrowed.pop(name, None)
        if lender_of(array) is not None:
            self.foreign.pop(name, None)
            self.borrowed[name] = bound

    def lenders(self) -> list[BorrowedMemory]:
        """Return the owners of the block's borrowed arrays; GPU work of these owners may use the same memory."""
        arrays = [bound.held() for bound in self.borrowed.values() if bound.held is not None]
        return [lender for array in arrays if array is not None and (lender := lender_of(array)) is not None]

    def prepare(self) -> None:
        """Allocate the device state for launches of the block on the current stream, unless the block has it."""
        size, stream = self.layout.state_size, self.device.stream
        if not size:
            return
        states = self.owned.states
        if stream not in states:
            states[stream] = self.buffers.take(size)
        self.put(self.layout.state_at, states[stream][0])

    @contextmanager
    def staged(self) -> Iterator[None]:
        """Keep copies of external arrays on the device during the `with` block; then copy written arrays back."""
        device, taken = self.device, []
        try:
            for name, array in self._foreign_arrays().items():
                address, size = self.buffers.take(array.nbytes)
                taken.append((name, array, address, size))
                device.write(address, array.__array_interface__["data"][0], array.nbytes)
                self.put(self.layout.arrays[name].address_at, address)
            yield
            for name, array, address, _ in taken:
                if name in self.written:
                    device.driver.copy_out(array.__array_interface__["data"][0], address, array.nbytes)
        finally:
            for *_, address, size in taken:
                self.buffers.give(address, size)
