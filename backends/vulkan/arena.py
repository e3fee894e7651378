"""Memory that host and device share: one allocation with two addresses, handed out in pieces.

A *region* is a buffer that stays mapped as long as it lives: byte k of it is at `begin + k` for the host and at
`begin + k + delta` for the device. Whoever holds an array holds an address of the host; a launch finds the device's in
the table of regions, which lies in words that machine code reads. Small pieces are cut from regions of many, large ones
have a region of their own.

Invariant: the table that words lead to is complete and sorted. It is never changed, but replaced as a whole by one
assignment, so that who reads it with the interpreter's lock held sees one state.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from dataclasses import dataclass, field

from ..words import address_of, words
from .device import Device
from .host_code import REGION, REGIONS
from .memory import KEPT, Buffer

CHUNK = 1 << 22
"""Bytes of a region of many pieces."""

LARGE = 1 << 19
"""Bytes from which on a piece has a region of its own, a multiple of GRAIN."""

LEAST, GRAIN = 256, 1 << 16


@dataclass(eq=False)
class Region:
    """A buffer and where the host sees it. used: bytes that were cut off; pieces: how many are out."""

    buffer: Buffer
    used: int = 0
    pieces: int = 0
    begin: int = field(init=False)

    def __post_init__(self) -> None:
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer.view))

    @property
    def end(self) -> int:
        return self.begin + self.buffer.size

    @property
    def delta(self) -> int:
        """What is added to an address of the host."""
        return self.buffer.address - self.begin


@dataclass(frozen=True)
class Piece:
    """Some bytes. address: for the host; launches translate it."""

    region: Region
    address: int
    size: int

    @property
    def on_device(self) -> int:
        """The device's address."""
        return self.address + self.region.delta

    @property
    def offset(self) -> int:
        """Where it begins in the region's buffer."""
        return self.address - self.region.begin

    @property
    def view(self) -> memoryview:
        """Its bytes."""
        return self.region.buffer.view[self.offset : self.offset + self.size]


class Arena:
    """Pieces by size. table: words of the device, of which REGIONS leads to the table of regions.

    The lock may be taken again by what the garbage collector ends meanwhile.
    """

    def __init__(self, device: Device, table: array[int]) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.kept = 0
        self._table = table
        self._regions: list[Region] = []
        self._cut: Region | None = None
        self._idle: dict[int, list[Piece]] = {}
        self._publish()

    def take(self, size: int) -> Piece:
        """At least so many bytes, of any content. Raises DeviceError, with the size."""
        large = size > LARGE
        rounded = -(-size // GRAIN) * GRAIN if large else max(LEAST, 1 << max(size - 1, 0).bit_length())
        with self.lock:
            idle = self._idle.get(rounded)
            if idle:
                found = idle.pop()
                self.kept -= rounded if large else 0
            else:
                found = self._large(rounded) if large else self._small(rounded)
            found.region.pieces += 1
            return found

    def give(self, piece: Piece) -> None:
        """Back. No launch may use it."""
        with self.lock:
            region = piece.region
            region.pieces -= 1
            if piece.size > LARGE:
                if self.kept + piece.size > KEPT:
                    self._drop([region])
                    return
                self.kept += piece.size
            self._idle.setdefault(piece.size, []).append(piece)

    def trim(self) -> None:
        """Give all regions back of which nothing is in use."""
        with self.lock:
            unused = [region for region in self._regions if not region.pieces]
            for size, pieces in self._idle.items():
                self._idle[size] = [piece for piece in pieces if piece.region.pieces]
            self.kept = 0
            if self._cut in unused:
                self._cut = None
            self._drop(unused)

    @property
    def held(self) -> int:
        """Bytes of all regions."""
        return sum(region.buffer.size for region in self._regions)

    def find(self, address: int) -> Region | None:
        """The region of an address of the host."""
        return next((region for region in self._regions if region.begin <= address < region.end), None)

    def _large(self, size: int) -> Piece:
        region = self._add(size)
        return Piece(region, region.begin, size)

    def _small(self, size: int) -> Piece:
        region = self._cut
        if region is None or region.used + size > CHUNK:
            region = self._cut = self._add(CHUNK)
        made = Piece(region, region.begin + region.used, size)
        region.used += size
        return made

    def _add(self, size: int) -> Region:
        region = Region(Buffer(self.device, size))
        self._regions.append(region)
        self._publish()
        return region

    def _drop(self, regions: list[Region]) -> None:
        self._regions = [region for region in self._regions if region not in regions]
        self._publish()
        for region in regions:
            region.buffer.free()

    def _publish(self) -> None:
        self._regions.sort(key=lambda region: region.begin)
        made = words(bytes(8 * (1 + REGION * len(self._regions))))
        made[0] = len(self._regions)
        for k, region in enumerate(self._regions):
            made[1 + REGION * k : 1 + REGION * (k + 1)] = words((region.begin, region.end, region.delta))
        before, self._published = getattr(self, "_published", None), made
        self._table[REGIONS] = address_of(made)
        del before
