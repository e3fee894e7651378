"""Copy host arrays to the device for one launch, and back after it where the kernel writes.

Arrays that share memory share it on the device too: arrays whose bytes overlap are one run, which is copied once and
lies in one buffer, at the same alignment.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ALIGN = 64
"""Places in a run keep their address modulo this number."""


class StagingMemory(Protocol):
    """Represent memory that the host sees."""

    @property
    def view(self) -> memoryview:
        """Return the bytes of the memory."""
        ...

    @property
    def address(self) -> int:
        """Return the address that a launch is given for the memory."""
        ...


class StagingAllocator(Protocol):
    """Represent the source of pieces: a pool of buffers, or an arena."""

    def take(self, size: int) -> Any:
        """Return a piece of at least `size` bytes."""
        ...

    def give(self, piece: Any, /) -> None:
        """Mark a piece of memory as free."""
        ...


@dataclass
class StagedRange:
    """Represent bytes begin .. end of host memory, and the memory on the device that holds a copy of them.

    Attributes:
        begin: first address
        end: address after the last byte
        buffer: memory that holds the copy, from byte `begin % ALIGN` on
    """

    begin: int
    end: int
    buffer: StagingMemory

    def on_device(self, address: int) -> int:
        """Return the device's address of a byte of the run."""
        return self.buffer.address + self.begin % ALIGN + address - self.begin

    def copy_in(self) -> None:
        """Copy all bytes from host to device."""
        size, at = self.end - self.begin, self.begin % ALIGN
        if size:
            self.buffer.view[at : at + size] = bytes_at(self.begin, size)

    def copy_out(self, address: int, size: int) -> None:
        """Copy some bytes from device to host."""
        at = self.begin % ALIGN + address - self.begin
        if size:
            bytes_at(address, size)[:] = self.buffer.view[at : at + size]


def bytes_at(address: int, size: int) -> memoryview:
    """Return memory of the host as bytes."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def memory_span(array: np.ndarray) -> tuple[int, int]:
    """Return address and number of bytes of a contiguous array."""
    address: int = array.__array_interface__["data"][0]
    return address, array.nbytes


class Staging:
    """Hold the copies of the arrays of one launch; the constructor raises DeviceError without memory for them."""

    def __init__(self, pool: StagingAllocator, arrays: Mapping[str, np.ndarray]) -> None:
        self.pool = pool
        self.arrays = arrays
        self.runs: list[StagedRange] = []
        try:
            for begin, end in merge_spans(sorted(memory_span(array) for array in arrays.values())):
                self.runs.append(StagedRange(begin, end, pool.take(end - begin + 2 * ALIGN)))
        except BaseException:
            self.release()
            raise

    def copy_in(self) -> None:
        """Copy all arrays to the device."""
        for run in self.runs:
            run.copy_in()

    def address(self, name: str) -> int:
        """Return the address of an array on the device."""
        at, size = memory_span(self.arrays[name])
        return self._run(at, size).on_device(at)

    def copy_out(self, name: str) -> None:
        """Copy an array that the kernel has written back to the host."""
        at, size = memory_span(self.arrays[name])
        self._run(at, size).copy_out(at, size)

    def _run(self, at: int, size: int) -> StagedRange:
        """Return the run that holds an array."""
        return next(run for run in self.runs if run.begin <= at and at + size <= run.end)

    def release(self) -> None:
        """Return the buffers to their pool."""
        for run in self.runs:
            self.pool.give(run.buffer)
        self.runs = []


def merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return begin and end of each run, from sorted spans of address and size.

    Spans that touch without overlapping stay apart.
    """
    out: list[tuple[int, int]] = []
    for at, size in spans:
        if out and at < out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], at + size)
        else:
            out.append((at, at + size))
    return out
