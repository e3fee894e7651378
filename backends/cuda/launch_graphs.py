"""This module creates the CUDA graph for the launches of one argument block, at the request of host code.

Invariant: a state belongs to a block and a stream, and a graph to a block and a stream, so a graph clears one state.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..host.block import ArgumentBlock
from .device import CudaDevice
from .driver import DriverError, KernelCall, LaunchGraph
from .graph_replay import (
    COUNT,
    ENTERED,
    EXECUTABLE,
    NEED,
    SEEN,
    SEEN_ON,
    SERVES,
    EntryKey,
    RecordOffsets,
    record_offsets,
)

IMPATIENT = 8
"""Factor by which more launches in a row are needed before the next graph of a block is made."""

MOST = 512
"""Most graphs of a device at a time, about 50 MB of its memory."""


class LaunchGraphs:
    """Manage the CUDA graph of an argument block, at most one at a time."""

    def __init__(self, device: CudaDevice, keys: Sequence[EntryKey]) -> None:
        self._device, self._keys = device, keys
        self._held: LaunchGraph | None = None

    def begin(self, block: ArgumentBlock) -> None:
        """Initialize the graph record of a block that has no graph yet."""
        block.put(self._places(block).word(NEED), self._device.patience)

    def _places(self, block: ArgumentBlock) -> RecordOffsets:
        """Return the byte offsets of the parts of the block's graph record."""
        return record_offsets(block.layout, len(self._keys))

    def make(self, block: ArgumentBlock) -> None:
        """Create the CUDA graph that host code requested for a block; if the driver refuses, the block has no graph."""
        at, device = self._places(block), self._device
        block.put(at.word(EXECUTABLE), 0)
        held, self._held = self._held, None
        # The old graph may be in flight.
        if held is not None:
            device.drop(lambda: self._discard(held))
        # Another thread has chosen another stream since.
        if block.word(at.word(SEEN_ON)) != device.stream:
            block.put(at.word(COUNT), 0)
            return
        plan = [block.word(at.plan + 8 * place) for place in range(len(self._keys))]
        try:
            made = self._made(block, plan)
        except DriverError:
            block.put(at.word(COUNT), -1)
            return
        need = IMPATIENT * block.word(at.word(NEED))
        block.put(at.word(COUNT), 0)
        block.put(at.word(NEED), need)
        if made is None:
            return
        self._held = made
        nodes = iter(made.nodes)
        for place, shape in enumerate(plan):
            block.put(at.nodes + 8 * place, next(nodes) if shape else 0)
        for word, seen in ((ENTERED, SEEN), (SERVES, SEEN_ON)):
            block.put(at.word(word), block.word(at.word(seen)))
        block.put(at.word(EXECUTABLE), made.executable)

    def _made(self, block: ArgumentBlock, plan: Sequence[int]) -> LaunchGraph | None:
        """Create and return a CUDA graph that repeats a launch, or return None if the device has MOST graphs already.

        Raises:
            DriverError: The driver refuses.
        """
        device, layout, parameters = self._device, block.layout, self._places(block).parameters
        if device.graphs >= MOST:
            return None
        state = block.word(parameters + layout.state_at), layout.state_size
        clear = state if layout.state_size else None
        made = device.driver.instantiate(clear, self._calls(block, plan), block.address + parameters)
        device.graphs += 1
        return made

    def _discard(self, held: LaunchGraph) -> None:
        """Destroy a graph, which no launch uses any more."""
        self._device.graphs -= 1
        self._device.driver.discard(held)

    def _calls(self, block: ArgumentBlock, plan: Sequence[int]) -> list[KernelCall]:
        """Return the kernel launches, with function and grid, of the entry points that a launch plan starts."""
        functions = block.layout.functions
        return [
            KernelCall(block.word(functions[key]), shape & 0xFFFFFFFF, shape >> 32)
            for key, shape in zip(self._keys, plan, strict=True)
            if shape
        ]

    def release(self) -> None:
        """Destroy the CUDA graph of an argument block that is launched no more."""
        held, self._held = self._held, None
        if held is not None:
            self._discard(held)
