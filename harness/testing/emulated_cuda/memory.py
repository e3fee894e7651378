"""This module allocates memory of the emulated device; each allocation is surrounded by protected pages.

Addresses are never used twice, so freed memory stays out of reach. New memory is filled with 0xFF: NaN, -1, and no
valid boolean. For the checks of kernels, `head` leads to (low, high) of all allocations, in ascending order.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import traceback
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

from .guard import GUARDED, guard

PAGE = mmap.PAGESIZE
ALIGN = 256
"""Alignment of an allocation in bytes, as the driver promises."""

_NOBODY, _DROP = 0, 4
"""Values of PROT_NONE and MADV_DONTNEED."""

_POISON, _POISONED = 0xFF, 1 << 22
_ARENA = 1 << 38


@dataclass(frozen=True)
class Allocation:
    """An `Allocation` describes one allocation of emulated device memory.

    Attributes:
        address: the address of its first byte.
        size: the number of bytes.
        kind: "device", "managed" or "pinned".
        pages: the first byte of its pages and the first byte after them.
        asked: the place in the code that allocated it.
    """

    address: int
    size: int
    kind: str
    pages: tuple[int, int]
    asked: str


class AddressSpace:
    """An `AddressSpace` is the range of addresses from which all emulated devices of a process allocate.

    Attributes:
        low: the first address.
        bytes: the number of addresses.
        shadow: the shadow memory, 16 bytes for each address.
    """

    def __init__(self) -> None:
        """Reserve addresses for all emulated devices, and shadow memory that records accesses to detect races.

        Raises:
            MemoryError: no addresses are left.
        """
        libc, integer = ctypes.CDLL(None, use_errno=True), ctypes.c_int
        self._map, self._protect, self._advise = libc.mmap, libc.mprotect, libc.madvise
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer, integer, integer, ctypes.c_long]
        self._protect.argtypes = self._advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer]
        self.bytes = _ARENA
        self.low = self._reserve(self.bytes, _NOBODY)
        self.shadow = self._reserve(16 * self.bytes, mmap.PROT_READ | mmap.PROT_WRITE)
        self._next = self.low + PAGE
        self._lock = threading.Lock()

    def _reserve(self, size: int, how: int) -> int:
        """Reserve a range of addresses without physical memory, protected as `how` says; return its first address."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        at: int | None = self._map(None, size, how, flags, -1, 0)
        if at in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no addresses are left for the emulated device")
        return at or 0

    def take(self, length: int) -> int:
        """Return the address of new pages that follow an inaccessible page.

        Raises:
            MemoryError: no addresses are left.
        """
        with self._lock:
            low = self._next
            if low + length + PAGE > self.low + self.bytes:
                raise MemoryError(length)
            if self._protect(low, length, mmap.PROT_READ | mmap.PROT_WRITE):
                raise MemoryError(length)
            self._next = low + length + PAGE
            return low

    def close(self, low: int, length: int) -> None:
        """Free the memory of pages and forbid every later access to them."""
        self._advise(low, length, _DROP)
        self._protect(low, length, _NOBODY)


@cache
def arena() -> AddressSpace:
    """Return the `AddressSpace` of this process."""
    return AddressSpace()


class DriverMemory:
    """A `DriverMemory` tracks every allocation of one emulated driver.

    A call that cannot be answered raises KeyError or MemoryError.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self.arena = arena()
        self.blocks: dict[int, Allocation] = {}
        self.freed: dict[int, Allocation] = {}
        self._lows: list[int] = []
        self._table = array("Q", bytes(8))
        self.head = array("Q", [0, 0])
        """Address of the table, and number of its entries."""
        self._publish()

    def allocate(self, size: int, kind: str) -> int:
        """Return the address of new memory, placed at the end of a page as far as its alignment permits."""
        size = max(size, 1)
        taken = -(-size // ALIGN) * ALIGN
        length = -(-taken // PAGE) * PAGE
        low = self.arena.take(length)
        address = low + length - taken
        # Large allocations are filled with garbage at both ends only.
        for at, count in ((low, min(length, _POISONED)), (max(low, low + length - _POISONED), min(length, _POISONED))):
            ctypes.memset(at, _POISON, count)
        self.blocks[address] = Allocation(address, size, kind, (low, low + length), _caller())
        self._publish()
        if kind == "managed" and GUARDED:
            guard().add(low, low + length, self._owner)
        return address

    def free(self, address: int, kinds: tuple[str, ...]) -> None:
        """Free the allocation at an address, which must be of one of these kinds.

        Raises:
            KeyError: there is no allocation of these kinds at the address.
            AssertionError: bytes beside the allocation were written.
        """
        block = self.blocks[address]
        if block.kind not in kinds:
            raise KeyError(address)
        if block.kind == "managed" and GUARDED:
            guard().remove(block.pages[0])
        self._inspect(block)
        del self.blocks[address]
        self.freed[address] = block
        self._publish()
        low, high = block.pages
        self.arena.close(low, high - low)

    def _inspect(self, block: Allocation) -> None:
        low, high = block.pages
        before = ctypes.string_at(low, min(block.address - low, _POISONED))
        after = ctypes.string_at(block.address + block.size, high - block.address - block.size)
        assert not (before + after).strip(b"\xff"), f"the bytes beside {self.describe(block)} were written"

    def _publish(self) -> None:
        self._lows = sorted(self.blocks)
        self._table = array("Q", [w for low in self._lows for w in (low, low + self.blocks[low].size)] or [0])
        self.head[0], self.head[1] = self._table.buffer_info()[0], len(self._lows)

    def holds(self, address: int, size: int) -> bool:
        """Return True if one allocation of this driver contains all of the `size` bytes at an address."""
        k = bisect_right(self._lows, address) - 1
        return k >= 0 and address + size <= self._lows[k] + self.blocks[self._lows[k]].size

    def kind_at(self, address: int) -> str:
        """Return "device", "managed" or "pinned", or "" for memory that is no allocation of this driver."""
        k = bisect_right(self._lows, address) - 1
        block = self.blocks[self._lows[k]] if k >= 0 else None
        return block.kind if block and address < block.address + block.size else ""

    def used(self, *kinds: str) -> int:
        """Return the number of bytes in allocations of the given kinds, such as "managed"."""
        return sum(b.size for b in self.blocks.values() if b.kind in kinds)

    def near(self, address: int) -> str:
        """Return a text for messages that describes the allocation at or before an address."""
        best: tuple[int, str] | None = None
        for state, blocks in (("", self.blocks), ("freed ", self.freed)):
            for block in blocks.values():
                distance = address - block.address
                if distance >= 0 and (best is None or distance < best[0]):
                    best = distance, f"byte {distance} of {state}{self.describe(block)}"
        return best[1] if best else "no allocation"

    @staticmethod
    def describe(block: Allocation) -> str:
        """Return a description of an allocation for messages: its size, its kind and the code that asked for it."""
        return f"{block.size} bytes of {block.kind} memory, asked for in {block.asked}"


def _caller() -> str:
    """Return a text with the innermost three stack frames outside of this package."""
    frames = [f for f in traceback.extract_stack(limit=9) if "emulated_cuda" not in f.filename]
    return " < ".join(f"{f.name}:{f.lineno}" for f in reversed(frames[-3:]))
