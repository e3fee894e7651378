"""Manage the adstack heap in host memory: one slab per kind of slot, shared by all kernels.

Stacks are empty at the start of every iteration, so a slab carries nothing from launch to launch: it may be replaced by
a larger slab, never copied. A slab grows by at least half, so that a program whose needs creep up allocates only a few
times; the first request, and a request that the machine could not otherwise serve, is met exactly. Pages are backed
when a row is first written, so rows that no iteration claims cost addresses alone.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count

from ..compiler.errors import DeviceError
from .base import SLABS
from .host_memory import UNLIMITED, address_limit, available_memory, map_pages, memory_of_machine
from .words import BUSY, EPOCH, words

PAGE = 4096


_EPOCHS = count(1)
"""The numbers of epochs of all heaps, so that an epoch also tells which heap's memory it describes."""


class HeapRefusal(DeviceError):
    """Signal that the system or the heap's limit allows no memory of the size that adstacks need."""


@dataclass(frozen=True)
class Slab:
    """Represent the memory of one slab: pages, address, current size and peak size.

    Attributes:
        memory: pages of the slab
        base: address, a multiple of the page size; 0 if the slab is empty
        current: number of bytes
        peak: greatest number of bytes since the last reset
    """

    memory: mmap.mmap | None = None
    base: int = 0
    current: int = 0
    peak: int = 0


@dataclass
class Heap:
    """Manage the three slabs of the adstack heap in host memory.

    Attributes:
        limit: greatest number of bytes of all slabs together; None for what the machine can back when it is asked
        lock: held by a launch that uses adstacks
        words: the epoch, and whether a launch uses the slabs just now (backends/words.py)
        slabs: the three slabs by name: real, integer and flag
    """

    limit: int | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    words: array[int] = field(default_factory=lambda: words((0, 0)))
    slabs: dict[str, Slab] = field(default_factory=lambda: {name: Slab() for name in SLABS})

    @contextmanager
    def claimed(self) -> Iterator[Heap]:
        """Reserve the heap for one launch and yield it; yield a temporary heap for a launch inside another launch."""
        with self.lock:
            if self.words[BUSY]:
                # A launch that is called by another launch, which holds the slabs, gets a heap of its own.
                yield Heap(self.limit)
                return
            self.words[BUSY] = 1
            try:
                yield self
            finally:
                self.words[BUSY] = 0

    def renew(self) -> None:
        """Release the heap in a forked child, where the launch that used it does not exist."""
        # A launch that held the heap was another thread's, which does not exist in the child.
        self.lock = threading.RLock()
        self.words[BUSY] = 0

    @property
    def epoch(self) -> int:
        """Return a number that changes whenever the address of a slab changes."""
        return self.words[EPOCH]

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Make every slab at least as large as needed, and return True if a slab had to grow.

        A refused request changes no slab, except that slabs which it gave back to make room stay empty.

        Raises:
            HeapRefusal: with numbers and reason, if the machine cannot give so much
        """
        grown = {name: need for name, need in needs.items() if need > self.slabs[name].current}
        if not grown:
            return False
        kept = sum(s.current for name, s in self.slabs.items() if name not in grown)
        room, reason = self._room()
        if kept + sum(grown.values()) > room:
            raise _refusal(needs, reason)
        self.words[EPOCH] = next(_EPOCHS)
        for name, need in grown.items():
            spare = room - kept - sum(grown.values()) + need
            self._grow(name, need, spare, needs)
        return True

    def most_bytes(self) -> tuple[int, str]:
        """Return the greatest number of adstack bytes of the heap, and a text that names the cause of this limit."""
        return memory_of_machine() if self.limit is None else (self.limit, "the heap is limited to")

    def base(self, name: str) -> int:
        """Return the address of a slab, or, if the slab is empty, of a page that reads of empty stacks may use."""
        return self.slabs[name].base or _address(_void_page())

    def _room(self) -> tuple[int, str]:
        """Return the greatest number of bytes of all slabs together, and a text that names the cause of this limit."""
        if self.limit is not None:
            return self.limit, f"the heap is limited to {self.limit} bytes"
        left, who = available_memory()
        held = sum(slab.current for slab in self.slabs.values())
        return left + held, f"{who} {left} bytes left"

    def _grow(self, name: str, need: int, spare: int, needs: Mapping[str, int]) -> None:
        """Replace a slab of the adstack heap by a larger one; the old contents are lost."""
        old = self.slabs[name]
        ample = _round(max(need, old.current + old.current // 2))
        for size in dict.fromkeys((ample if ample <= spare else _round(need), _round(need))):
            memory = _mapped(size)
            # The old slab is given back first if both together cannot be had.
            if memory is None:
                self.slabs[name] = Slab(peak=old.peak)
                memory = _mapped(size)
            if memory is not None:
                self.slabs[name] = Slab(memory, _address(memory), size, max(old.peak, size))
                return
        limit = address_limit()
        reason = "the system refuses to map so much"
        raise _refusal(needs, reason if limit == UNLIMITED else f"{reason} (`ulimit -v` is {limit} bytes)")

    def report(self) -> dict[str, dict[str, int]]:
        """Return {"real": {"current": bytes, "peak": bytes}, ...}, with the peak since the last reset."""
        return {name: {"current": slab.current, "peak": slab.peak} for name, slab in self.slabs.items()}

    def reset(self) -> None:
        """Free all memory and forget the peaks."""
        with self.lock:
            self.slabs = {name: Slab() for name in SLABS}
            self.words[EPOCH] = next(_EPOCHS)


def _refusal(needs: Mapping[str, int], reason: str) -> HeapRefusal:
    """Return the error for adstacks that need more memory than there is, with the bytes needed and the reason."""
    sizes = ", ".join(f"{need} bytes of {name} slots" for name, need in needs.items() if need)
    return HeapRefusal(f"the adstacks need {sizes}, and {reason}")


@cache
def _void_page() -> mmap.mmap:
    """Return the memory page that reads of adstacks without slots use; the page is mapped once."""
    return map_pages(PAGE)


def _address(memory: mmap.mmap) -> int:
    """Return the address of mapped memory."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _mapped(size: int) -> mmap.mmap | None:
    """Return new private memory of the process, or None if the system refuses to give it."""
    try:
        return map_pages(size)
    except (OSError, OverflowError, ValueError):
        return None


def _round(size: int) -> int:
    """Return the number of bytes rounded up to whole pages."""
    return -(-size // PAGE) * PAGE
