"""Memory of the emulated device: each allocation on pages of its own, between pages that nobody may touch.

Addresses are never used twice, so what is freed stays out of reach. New memory is filled with 0xFF: NaN, -1, and no
boolean. For the checks of kernels, `head` leads to (low, high) of what there is, ascending, and `shadow` to 16 bytes
for each address.
"""
from __future__ import annotations

import ctypes
import mmap
import traceback
from array import array
from bisect import bisect_right
from dataclasses import dataclass

from .guard import GUARDED, guard

PAGE = mmap.PAGESIZE
ALIGN = 256
"""Of an allocation, as the driver promises."""

_NOBODY = 0  # PROT_NONE
_POISON, _POISONED = 0xFF, 1 << 22
_ARENA = 1 << 38


@dataclass(frozen=True)
class Block:
    """One allocation: its first byte, its bytes, "device", "managed" or "pinned", its pages, and who asked for it."""

    address: int
    size: int
    kind: str
    pages: tuple[int, int]
    asked: str


class Memory:
    """Every allocation of one driver. Calls that cannot be answered raise KeyError or MemoryError."""

    def __init__(self, owner: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        integer = ctypes.c_int
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer, integer, integer, ctypes.c_long]
        for name in ("mprotect", "madvise"):
            getattr(self._libc, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer]
        self._owner = owner
        self.low, self._end = self._reserve(_ARENA)
        self._next = self.low + PAGE
        self.shadow = self._reserve(16 * (self._end - self.low), mmap.PROT_READ | mmap.PROT_WRITE)[0]
        self.blocks: dict[int, Block] = {}
        self.freed: dict[int, Block] = {}
        self._lows: list[int] = []
        self._table = array("Q", bytes(8))
        self.head = array("Q", [0, 0])
        """Address of the table, number of its entries."""
        self._publish()

    @property
    def bytes(self) -> int:
        """Of all addresses that it can ever give out, from `low` on."""
        return self._end - self.low

    def _reserve(self, size: int, how: int = _NOBODY) -> tuple[int, int]:
        """(begin, end) of addresses; nothing stands behind them yet."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        at = self._libc.mmap(None, size, how, flags, -1, 0)
        if at in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no addresses are left for the emulated device")
        return at, at + size

    def allocate(self, size: int, kind: str) -> int:
        """The address: its end is that of a page, as far as the alignment lets it."""
        size = max(size, 1)
        taken = -(-size // ALIGN) * ALIGN
        length = -(-taken // PAGE) * PAGE
        low = self._next
        if low + length + PAGE > self._end:
            raise MemoryError(size)
        if self._libc.mprotect(low, length, mmap.PROT_READ | mmap.PROT_WRITE):
            raise MemoryError(size)
        self._next = low + length + PAGE
        address = low + length - taken
        for at, count in ((low, min(length, _POISONED)), (max(low, low + length - _POISONED), min(length, _POISONED))):
            ctypes.memset(at, _POISON, count)
        self.blocks[address] = Block(address, size, kind, (low, low + length), _caller())
        self._publish()
        if kind == "managed" and GUARDED:
            guard().add(low, low + length, self._owner)
        return address

    def free(self, address: int, kinds: tuple[str, ...]) -> None:
        """Raises KeyError for what is not there or of another kind; AssertionError if its neighbours were written."""
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
        self._libc.madvise(low, high - low, 4)  # MADV_DONTNEED
        self._libc.mprotect(low, high - low, _NOBODY)

    def _inspect(self, block: Block) -> None:
        low, high = block.pages
        before = ctypes.string_at(low, min(block.address - low, _POISONED))
        after = ctypes.string_at(block.address + block.size, high - block.address - block.size)
        assert not (before + after).strip(b"\xff"), f"the bytes beside {self.describe(block)} were written"

    def _publish(self) -> None:
        self._lows = sorted(self.blocks)
        self._table = array("Q", [w for low in self._lows for w in (low, low + self.blocks[low].size)] or [0])
        self.head[0], self.head[1] = self._table.buffer_info()[0], len(self._lows)

    def holds(self, address: int, size: int) -> bool:
        """Whether all these bytes lie in one allocation."""
        k = bisect_right(self._lows, address) - 1
        return k >= 0 and address + size <= self._lows[k] + self.blocks[self._lows[k]].size

    def kind_at(self, address: int) -> str:
        """"device", "managed", "pinned", or "" for memory that is not ours."""
        k = bisect_right(self._lows, address) - 1
        block = self.blocks[self._lows[k]] if k >= 0 else None
        return block.kind if block and address < block.address + block.size else ""

    def used(self, *kinds: str) -> int:
        """Bytes in allocations of these kinds."""
        return sum(b.size for b in self.blocks.values() if b.kind in kinds)

    def near(self, address: int) -> str:
        """What lies at an address or before it, for messages."""
        best: tuple[int, str] | None = None
        for state, blocks in (("", self.blocks), ("freed ", self.freed)):
            for block in blocks.values():
                distance = address - block.address
                if distance >= 0 and (best is None or distance < best[0]):
                    best = distance, f"byte {distance} of {state}{self.describe(block)}"
        return best[1] if best else "no allocation"

    @staticmethod
    def describe(block: Block) -> str:
        return f"{block.size} bytes of {block.kind} memory, asked for in {block.asked}"


def _caller() -> str:
    """Who asked for memory: the innermost frames outside of this package."""
    frames = [f for f in traceback.extract_stack(limit=9) if "emulated_cuda" not in f.filename]
    return " < ".join(f"{f.name}:{f.lineno}" for f in reversed(frames[-3:]))
