"""Host arrays on the device for one launch: copied in before, and back after it where the kernel writes.

Arrays that share memory share it on the device too: those whose bytes overlap are one run, which is copied once and
lies in one buffer, at the same alignment.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ALIGN = 64
"""Places in a run keep their address modulo this."""


class Piece(Protocol):
    """Memory that the host sees: its bytes, and the address that a launch is given for it."""

    @property
    def view(self) -> memoryview: ...
    @property
    def address(self) -> int: ...


class Lender(Protocol):
    """Where pieces come from: a pool of buffers, or an arena."""

    def take(self, size: int) -> Any: ...
    def give(self, piece: Any, /) -> None: ...


@dataclass
class Run:
    """Bytes begin .. end of host memory, and the memory that holds them from byte `begin % ALIGN` on."""

    begin: int
    end: int
    buffer: Piece

    def on_device(self, address: int) -> int:
        """The device's address of a byte of the run."""
        return self.buffer.address + self.begin % ALIGN + address - self.begin

    def copy_in(self) -> None:
        """Host to device."""
        size, at = self.end - self.begin, self.begin % ALIGN
        if size:
            self.buffer.view[at : at + size] = bytes_at(self.begin, size)

    def copy_out(self, address: int, size: int) -> None:
        """Device to host."""
        at = self.begin % ALIGN + address - self.begin
        if size:
            bytes_at(address, size)[:] = self.buffer.view[at : at + size]


def bytes_at(address: int, size: int) -> memoryview:
    """Memory of the host."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def span(array: np.ndarray) -> tuple[int, int]:
    """(address, bytes) of a contiguous array."""
    address: int = array.__array_interface__["data"][0]
    return address, array.nbytes


class Staging:
    """Arrays of one launch by name. Raises DeviceError if there is no memory for them."""

    def __init__(self, pool: Lender, arrays: Mapping[str, np.ndarray]) -> None:
        self.pool = pool
        self.arrays = arrays
        self.runs: list[Run] = []
        try:
            for begin, end in merged(sorted(span(array) for array in arrays.values())):
                self.runs.append(Run(begin, end, pool.take(end - begin + 2 * ALIGN)))
        except BaseException:
            self.release()
            raise

    def copy_in(self) -> None:
        """All of them."""
        for run in self.runs:
            run.copy_in()

    def address(self, name: str) -> int:
        """Where an array lies on the device."""
        at, size = span(self.arrays[name])
        return self._run(at, size).on_device(at)

    def copy_out(self, name: str) -> None:
        """What the kernel has made of an array."""
        at, size = span(self.arrays[name])
        self._run(at, size).copy_out(at, size)

    def _run(self, at: int, size: int) -> Run:
        return next(run for run in self.runs if run.begin <= at and at + size <= run.end)

    def release(self) -> None:
        """Give the buffers back."""
        for run in self.runs:
            self.pool.give(run.buffer)
        self.runs = []


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(begin, end) of runs; spans that touch without overlapping stay apart."""
    out: list[tuple[int, int]] = []
    for at, size in spans:
        if out and at < out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], at + size)
        else:
            out.append((at, at + size))
    return out
