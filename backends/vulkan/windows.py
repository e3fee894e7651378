"""This module copies the arrays of one launch to one buffer, and computes each storage buffer's window of it.

Every run of bytes that arrays share is copied once (staging.py). All runs of a launch lie in one buffer, those of one
binding side by side. A window begins where the device lets a storage buffer begin, and holds all arrays of its binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...compiler.errors import DeviceError
from .memory import Buffer, BufferPool
from .physical_devices import PhysicalDevice
from .staging import ALIGN, bytes_at, memory_span, merge_spans

WORD = 8
"""Bytes of the largest word that an update of an element exchanges; windows hold whole words."""


@dataclass(frozen=True)
class BufferWindow:
    """Represent a range of a buffer that one storage buffer binding of a shader accesses.

    Attributes:
        buffer: Vulkan buffer that contains the range
        offset: offset of the first byte in the buffer
        size: number of bytes
    """

    buffer: Buffer
    offset: int
    size: int


@dataclass(frozen=True)
class _WindowRange:
    """Represent the range begin .. end of host addresses, and the offset of its copy in the buffer."""

    begin: int
    end: int
    at: int


class Windows:
    """Hold the buffer with copies of the arrays of one launch, and the window of each binding.

    The constructor raises DeviceError if a window or the buffer is too large.

    Attributes:
        arrays: arrays of the launch, by name
        bindings: number of the binding of each array, by name
        buffer: buffer that holds the copies
        windows: window of each binding, by its number
    """

    def __init__(
        self, pool: BufferPool, card: PhysicalDevice, arrays: Mapping[str, np.ndarray], bindings: Mapping[str, int]
    ) -> None:
        self.pool, self.card, self.arrays, self.bindings = pool, card, arrays, bindings
        self._runs, size = self._placed()
        found = self._spans()
        for binding, (low, high) in found.items():
            if high - low > card.reach:
                raise DeviceError(self._beyond(binding, high - low))
        self.buffer = pool.take(max(size, 1))
        self.windows = {binding: BufferWindow(self.buffer, low, high - low) for binding, (low, high) in found.items()}

    def _placed(self) -> tuple[list[_WindowRange], int]:
        """Return each binding's host ranges, with the offsets of their copies in the buffer, and the buffer's size."""
        first: dict[tuple[int, int], int] = {}
        spans = {name: memory_span(array) for name, array in self.arrays.items()}
        runs = merge_spans(sorted(spans.values()))
        for begin, end in runs:
            inside = (self.bindings[name] for name, (at, _) in spans.items() if begin <= at < max(end, begin + 1))
            first[begin, end] = min(inside)
        out, used = [], 0
        for begin, end in sorted(runs, key=lambda run: (first[run], run)):
            at = -(-used // ALIGN) * ALIGN + begin % ALIGN
            out.append(_WindowRange(begin, end, at))
            used = at + end - begin
        return out, used + ALIGN

    def _spans(self) -> dict[int, tuple[int, int]]:
        """Return (begin, end) of each binding's window in the buffer."""
        out: dict[int, tuple[int, int]] = {}
        for name, array in self.arrays.items():
            binding, (low, high) = self.bindings[name], out.get(self.bindings[name], (1 << 63, 0))
            at, unit = self.place(name), max(self.card.alignment, WORD)
            # An empty array takes some bytes too, because no descriptor may show none.
            out[binding] = min(low, at // unit * unit), max(high, (at + max(array.nbytes, 1) + WORD - 1) // WORD * WORD)
        return out

    def _beyond(self, binding: int, size: int) -> str:
        """Return the error message for a window that is larger than a shader can address."""
        names = [name for name in self.arrays if self.bindings[name] == binding]
        owner = f"array {names[0]} takes" if len(names) == 1 else f"arrays {', '.join(names)} take, in one buffer,"
        return (
            f"{owner} {size} bytes, and without buffer addresses shaders of {self.card.name} reach {self.card.reach} "
            "bytes of a storage buffer; nothing was run; cure: smaller arrays, or the cpu backend"
        )

    def place(self, name: str) -> int:
        """Return the offset of an array's copy in the buffer."""
        at, size = memory_span(self.arrays[name])
        run = next(run for run in self._runs if run.begin <= at and at + size <= run.end)
        return run.at + at - run.begin

    def address(self, name: str) -> int:
        """Return the offset of an array's copy from the start of its window."""
        return self.place(name) - self.windows[self.bindings[name]].offset

    def copy_in(self) -> None:
        """Copy all arrays of the launch into the buffer."""
        for run in self._runs:
            if run.end > run.begin:
                size = run.end - run.begin
                self.buffer.view[run.at : run.at + size] = bytes_at(run.begin, size)

    def copy_out(self, name: str) -> None:
        """Copy an array that the kernel has written back to the host."""
        at, size = memory_span(self.arrays[name])
        if size:
            place = self.place(name)
            bytes_at(at, size)[:] = self.buffer.view[place : place + size]

    def release(self) -> None:
        """Give the buffer with the copies of the arrays back to the buffer pool."""
        self.pool.give(self.buffer)
