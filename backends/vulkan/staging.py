"""This module copies host arrays to the device for one launch, and copies the written ones back afterwards.

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
    """Define the interface of staging memory, which the host can access and whose address a launch can be given."""

    @property
    def view(self) -> memoryview:
        """Return a memoryview of the bytes of the memory."""
        ...

    @property
    def address(self) -> int:
        """Return the address by which a launch accesses the staging memory."""
        ...


class StagingAllocator(Protocol):
    """Describe the interface of an allocator of staging memory: a pool of buffers, or an arena."""

    def take(self, size: int) -> Any:
        """Return staging memory of at least `size` bytes."""
        ...

    def give(self, piece: Any, /) -> None:
        """Mark staging memory that `take` returned as free."""
        ...


@dataclass
class StagedRange:
    """Represent the range begin .. end of host addresses, and the device memory that holds a copy of these bytes.

    Attributes:
        begin: first host address of the range
        end: host address after the last byte
        buffer: memory that holds the copy, from byte `begin % ALIGN` on
    """

    begin: int
    end: int
    buffer: StagingMemory

    def on_device(self, address: int) -> int:
        """Return the device address of the copy of the byte at a host address in the range."""
        return self.buffer.address + self.begin % ALIGN + address - self.begin

    def copy_in(self) -> None:
        """Copy all bytes of the range from host to device."""
        size, at = self.end - self.begin, self.begin % ALIGN
        if size:
            self.buffer.view[at : at + size] = bytes_at(self.begin, size)

    def copy_out(self, address: int, size: int) -> None:
        """Copy `size` bytes at a host address back from the device."""
        at = self.begin % ALIGN + address - self.begin
        if size:
            bytes_at(address, size)[:] = self.buffer.view[at : at + size]


def bytes_at(address: int, size: int) -> memoryview:
    """Return a memoryview of `size` bytes at a host address."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def memory_span(array: np.ndarray) -> tuple[int, int]:
    """Return address and number of bytes of a contiguous array."""
    address: int = array.__array_interface__["data"][0]
    return address, array.nbytes


class Staging:
    """Hold device copies of the arrays of one launch. The constructor raises DeviceError if memory is short."""

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
        """Copy all arrays of the launch to the device."""
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
        """Return the staged range that contains an array."""
        return next(run for run in self.runs if run.begin <= at and at + size <= run.end)

    def release(self) -> None:
        """Return the staging buffers to their pool."""
        for run in self.runs:
            self.pool.give(run.buffer)
        self.runs = []


def merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return (begin, end) of the ranges that result from merging overlapping spans, given as sorted (address, size).

    Spans that touch without overlapping stay apart.
    """
    out: list[tuple[int, int]] = []
    for at, size in spans:
        if out and at < out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], at + size)
        else:
            out.append((at, at + size))
    return out
