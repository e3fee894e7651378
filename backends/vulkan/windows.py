"""Arrays of one launch in one buffer, of which each storage buffer of a shader is shown a window.

The host has a copy made of every run of bytes that arrays share (staging.py); all runs of a launch lie in one buffer,
those of one binding side by side. A window begins where the device lets one begin, and holds all arrays of its binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...compiler.errors import DeviceError
from .device import Card
from .memory import Buffer, Pool
from .staging import ALIGN, bytes_at, merged, span

WORD = 8
"""Bytes of the largest word that an update of an element exchanges: windows hold whole ones."""


@dataclass(frozen=True)
class Window:
    """Bytes of a buffer that a storage buffer of a shader is."""

    buffer: Buffer
    offset: int
    size: int


@dataclass(frozen=True)
class _Run:
    """Bytes begin .. end of host memory, and where they lie in the buffer."""

    begin: int
    end: int
    at: int


class Windows:
    """Arrays of one launch by name, and their windows by binding. Raises DeviceError where they have no place.

    bindings: numbers by name of array.
    """

    def __init__(self, pool: Pool, card: Card, arrays: Mapping[str, np.ndarray], bindings: Mapping[str, int]) -> None:
        self.pool, self.card, self.arrays, self.bindings = pool, card, arrays, bindings
        self._runs, size = self._placed()
        found = self._spans()
        for binding, (low, high) in found.items():
            if high - low > card.reach:
                raise DeviceError(self._beyond(binding, high - low))
        self.buffer = pool.take(max(size, 1))
        self.windows = {binding: Window(self.buffer, low, high - low) for binding, (low, high) in found.items()}

    def _placed(self) -> tuple[list[_Run], int]:
        """Runs, in order of the first binding that shows one, and the bytes of all."""
        first: dict[tuple[int, int], int] = {}
        spans = {name: span(array) for name, array in self.arrays.items()}
        runs = merged(sorted(spans.values()))
        for begin, end in runs:
            inside = (self.bindings[name] for name, (at, _) in spans.items() if begin <= at < max(end, begin + 1))
            first[begin, end] = min(inside)
        out, used = [], 0
        for begin, end in sorted(runs, key=lambda run: (first[run], run)):
            at = -(-used // ALIGN) * ALIGN + begin % ALIGN
            out.append(_Run(begin, end, at))
            used = at + end - begin
        return out, used + ALIGN

    def _spans(self) -> dict[int, tuple[int, int]]:
        """(begin, end) of each window. An empty array has some bytes too: no descriptor is of none."""
        out: dict[int, tuple[int, int]] = {}
        for name, array in self.arrays.items():
            binding, (low, high) = self.bindings[name], out.get(self.bindings[name], (1 << 63, 0))
            at, unit = self.place(name), max(self.card.alignment, WORD)
            out[binding] = min(low, at // unit * unit), max(high, (at + max(array.nbytes, 1) + WORD - 1) // WORD * WORD)
        return out

    def _beyond(self, binding: int, size: int) -> str:
        """Why a window cannot be."""
        names = [name for name in self.arrays if self.bindings[name] == binding]
        owner = f"array {names[0]} takes" if len(names) == 1 else f"arrays {', '.join(names)} take, in one buffer,"
        return (
            f"{owner} {size} bytes, and without buffer addresses shaders of {self.card.name} reach {self.card.reach} "
            "bytes of a storage buffer; nothing was run; cure: smaller arrays, or the cpu backend"
        )

    def place(self, name: str) -> int:
        """Where an array begins in the buffer."""
        at, size = span(self.arrays[name])
        run = next(run for run in self._runs if run.begin <= at and at + size <= run.end)
        return run.at + at - run.begin

    def address(self, name: str) -> int:
        """Where an array begins in its window."""
        return self.place(name) - self.windows[self.bindings[name]].offset

    def copy_in(self) -> None:
        """All of them."""
        for run in self._runs:
            if run.end > run.begin:
                size = run.end - run.begin
                self.buffer.view[run.at : run.at + size] = bytes_at(run.begin, size)

    def copy_out(self, name: str) -> None:
        """What the kernel has made of an array."""
        at, size = span(self.arrays[name])
        if size:
            place = self.place(name)
            bytes_at(at, size)[:] = self.buffer.view[place : place + size]

    def release(self) -> None:
        """Give the buffer back."""
        self.pool.give(self.buffer)
