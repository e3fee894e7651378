"""This module allocates memory that host and device share, in pieces that have an address on either side.

A *region* is a buffer that stays mapped as long as it lives: byte k of a region is at `begin + k` for the host and at
`begin + k + delta` for the device. An array holds an address of the host; a launch finds the device's address in the
table of regions, which lies in words that machine code reads. Small pieces are cut from regions of many pieces; large
pieces have a region of their own.

Invariant: the table of regions is complete and sorted. The table is never changed, but replaced as a whole by one
assignment, so that a reader with the interpreter's lock sees one state.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from dataclasses import dataclass, field

from ..words import address_of, words
from .device import VulkanDevice
from .host_code import REGION, REGIONS
from .memory import KEPT, Buffer

CHUNK = 1 << 22
"""Bytes of a region of many pieces."""

LARGE = 1 << 19
"""Number of bytes above which a piece has a region of its own; a multiple of GRAIN."""

LEAST, GRAIN = 256, 1 << 16
"""Bytes of the smallest piece, and the bytes to a multiple of which large pieces are rounded up."""


@dataclass(eq=False)
class ArenaRegion:
    """Represent one large buffer of shared memory, from which pieces are cut, and its host address.

    Attributes:
        buffer: the buffer, which stays mapped
        used: bytes that were cut off for pieces
        pieces: number of pieces in use
        begin: first address for the host
    """

    buffer: Buffer
    used: int = 0
    pieces: int = 0
    begin: int = field(init=False)

    def __post_init__(self) -> None:
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer.view))

    @property
    def end(self) -> int:
        """Return the host address of the first byte after the region."""
        return self.begin + self.buffer.size

    @property
    def delta(self) -> int:
        """Return the distance from host address to device address, which is the same for each byte of the region."""
        return self.buffer.address - self.begin


@dataclass(frozen=True)
class Suballocation:
    """Represent a piece of shared memory, cut from a region, that one user holds.

    Attributes:
        region: the region in which the piece lies
        address: address for the host, which launches translate
        size: number of bytes
    """

    region: ArenaRegion
    address: int
    size: int

    @property
    def on_device(self) -> int:
        """Return the device address of the piece."""
        return self.address + self.region.delta

    @property
    def offset(self) -> int:
        """Return the offset of the piece in the region's buffer, in bytes."""
        return self.address - self.region.begin

    @property
    def view(self) -> memoryview:
        """Return a memoryview of the bytes of the piece."""
        return self.region.buffer.view[self.offset : self.offset + self.size]


class DeviceArena:
    """Hold all regions of shared memory of a device, and the free pieces of these regions by size.

    `table` holds the words of the device; its word REGIONS is the address of the table of regions.
    """

    def __init__(self, device: VulkanDevice, table: array[int]) -> None:
        self.device = device
        # A finalizer that the garbage collector runs meanwhile may take the lock again.
        self.lock = threading.RLock()
        self.kept = 0
        self._table = table
        self._regions: list[ArenaRegion] = []
        self._cut: ArenaRegion | None = None
        self._idle: dict[int, list[Suballocation]] = {}
        self._publish()

    def take(self, size: int) -> Suballocation:
        """Return a piece of at least `size` bytes of shared memory, not initialized.

        Raises:
            DeviceError: with the size, if there is no memory
        """
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

    def give(self, piece: Suballocation) -> None:
        """Mark a piece as free. No launch may still use it."""
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
        """Free all regions of which no piece is in use."""
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
        """Return the number of bytes of all regions together."""
        return sum(region.buffer.size for region in self._regions)

    def find(self, address: int) -> ArenaRegion | None:
        """Return the region that contains a host address, or None if no region does."""
        return next((region for region in self._regions if region.begin <= address < region.end), None)

    def _large(self, size: int) -> Suballocation:
        """Allocate a region that is one piece, and return this piece."""
        region = self._add(size)
        return Suballocation(region, region.begin, size)

    def _small(self, size: int) -> Suballocation:
        """Return a small piece, cut from a region that is shared by many pieces."""
        region = self._cut
        if region is None or region.used + size > CHUNK:
            region = self._cut = self._add(CHUNK)
        made = Suballocation(region, region.begin + region.used, size)
        region.used += size
        return made

    def _add(self, size: int) -> ArenaRegion:
        """Allocate a region, add it to the table of regions, and return it."""
        region = ArenaRegion(Buffer(self.device, size))
        self._regions.append(region)
        self._publish()
        return region

    def _drop(self, regions: list[ArenaRegion]) -> None:
        """Remove regions from the arena and from the table that machine code reads, and free their buffers."""
        self._regions = [region for region in self._regions if region not in regions]
        self._publish()
        for region in regions:
            region.buffer.free()

    def _publish(self) -> None:
        """Publish the present list of regions in the table that machine code reads to translate addresses."""
        self._regions.sort(key=lambda region: region.begin)
        made = words(bytes(8 * (1 + REGION * len(self._regions))))
        made[0] = len(self._regions)
        for k, region in enumerate(self._regions):
            made[1 + REGION * k : 1 + REGION * (k + 1)] = words((region.begin, region.end, region.delta))
        # The old table must live until no word leads to it any more.
        before, self._published = getattr(self, "_published", None), made
        self._table[REGIONS] = address_of(made)
        del before
