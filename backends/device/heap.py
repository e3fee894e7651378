"""This module holds the adstack heap on a device: for each stream one slab per kind of slot, shared by its kernels.

Launches of one stream run one after another and stacks are empty at the start of every iteration, so a slab carries
nothing from launch to launch: a larger one takes its place, never a copy. Launches of different streams may run at
once, so each stream has slabs of its own. Only growing waits for the device: the old slab may be in use until the
stream is idle. A slab grows by at least half, so that needs that creep up allocate rarely; the first request, and a
request that could not otherwise be served, is met exactly.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from ...compiler.errors import DeviceError
from ..base import SLABS
from ..heap import HeapRefusal
from ..words import BUSY, EPOCH, words

GRAIN = 512
"""Sizes of slabs are multiples of this many bytes, the least that a device hands out."""

_EPOCHS = count(1)
"""Epochs of all heaps: an epoch also tells heaps apart."""


class HeapDriver(Protocol):
    """Define the memory functions of a driver that the heap uses; all addresses are in device memory."""

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes; raise DeviceError if memory is short."""

    def free(self, address: int) -> None:
        """Free device memory that `allocate` has returned."""

    def free_memory(self) -> tuple[int, int]:
        """Return the number of free bytes and the number of all bytes of the device's memory."""

    def wait(self, stream: int | None = None) -> None:
        """Wait for the work queued on a stream, by default on the current stream."""


@dataclass(frozen=True)
class DeviceSlab:
    """Represent the device memory of one slab: address, current size and peak size.

    Attributes:
        base: Address of the memory; 0 if there is none.
        current: Bytes of the memory.
        peak: Most bytes since the last reset.
    """

    base: int = 0
    current: int = 0
    peak: int = 0


@dataclass
class _Slabs:
    """Represent the three slabs of the adstack heap that belong to one stream, with their epoch.

    Attributes:
        epoch: Number that changes whenever an address does.
        by_name: The slabs by name.
        void: Readable memory for stacks without slots.
    """

    epoch: int = 0
    by_name: dict[str, DeviceSlab] = field(default_factory=lambda: {name: DeviceSlab() for name in SLABS})
    void: DeviceSlab = DeviceSlab()

    def addresses(self) -> list[int]:
        """Return the addresses of all device memory that the slabs occupy."""
        return [slab.base for slab in (*self.by_name.values(), self.void) if slab.base]


class DeviceHeap:
    """Manage the slabs of all streams; methods without a stream argument use the current stream's slabs.

    Attributes:
        memory: Driver that gives the memory.
        limit: Most bytes of all slabs of a stream together; None for what the device has left when it is asked.
        lock: Held by a launch that uses adstacks.
        words: Epoch of the present slabs, and whether a launch uses them just now (backends/words.py).
        waits: Number of times that growth waited for the device.
    """

    def __init__(self, memory: HeapDriver, limit: int | None = None) -> None:
        self.memory = memory
        self.limit = limit
        self.lock = threading.RLock()
        self.words: array[int] = words((0, 0))
        self.waits = 0
        self._streams: dict[int, _Slabs] = {}
        self._stream = 0
        self._slabs = self._streams.setdefault(0, _Slabs(next(_EPOCHS)))
        self.words[EPOCH] = self._slabs.epoch

    @contextmanager
    def claimed(self) -> Iterator[DeviceHeap]:
        """Reserve the heap for one launch and yield it, or yield a temporary heap if another thread is launching.

        While native code launches on another thread, these are the slabs of a new heap for this launch alone.
        """
        with self.lock:
            if not self.words[BUSY]:
                self.words[BUSY] = 1
                try:
                    yield self
                finally:
                    self.words[BUSY] = 0
                return
            own = DeviceHeap(self.memory, self.limit)
            try:
                yield own
            finally:
                self.memory.wait()
                own.reset()

    @property
    def epoch(self) -> int:
        """Return a number that changes when a slab moves or another stream becomes the current one."""
        return self.words[EPOCH]

    def use(self, stream: int) -> None:
        """Make a stream's slabs the current ones; only ready launches for the current stream are valid."""
        with self.lock:
            self._stream = stream
            self._slabs = self._streams.setdefault(stream, _Slabs(next(_EPOCHS)))
            self.words[EPOCH] = self._slabs.epoch

    def forget(self, stream: int) -> None:
        """Free the slabs of a stream that is idle and about to be destroyed."""
        with self.lock:
            found = self._streams.pop(stream, None)
            for address in found.addresses() if found else ():
                self.memory.free(address)
            if stream == self._stream:
                self.use(stream)

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Make every slab at least as large as needed; return True if one had to grow.

        Args:
            needs: Bytes that are needed, by slab.

        Raises:
            HeapRefusal: The device does not have the memory. No slab has changed then, except for those that were given
            back before the device refused; they are empty.
        """
        slabs = self._slabs.by_name
        grown = {name: _round(need) for name, need in needs.items() if need > slabs[name].current}
        if not grown:
            return False
        held = sum(slab.current for slab in slabs.values())
        kept = held - sum(slabs[name].current for name in grown)
        room, reason = self._room(held)
        if kept + sum(grown.values()) > room:
            raise _refusal(needs, reason)
        self._renew_epoch()
        if any(slabs[name].base for name in grown):
            self.memory.wait(self._stream)
            self.waits += 1
        # Half more is taken if it can be had, so that needs that creep up allocate rarely.
        ample = {name: _round(max(need, slabs[name].current * 3 // 2)) for name, need in grown.items()}
        self._replace(ample if kept + sum(ample.values()) <= room else grown, grown, needs)
        return True

    def _replace(self, sizes: Mapping[str, int], least: Mapping[str, int], needs: Mapping[str, int]) -> None:
        """Free the old memory of some slabs and allocate new memory for them.

        Args:
            sizes: Bytes of the new slabs.
            least: Bytes that are enough, where the device has no more.
            needs: Bytes that are asked for, which a refusal names.
        """
        slabs = self._slabs.by_name
        for name in sizes:
            old, slabs[name] = slabs[name], DeviceSlab(peak=slabs[name].peak)
            if old.base:
                self.memory.free(old.base)
        for name, size in sizes.items():
            base, size = self._allocated(dict.fromkeys((size, least[name])), needs)
            slabs[name] = DeviceSlab(base, size, max(slabs[name].peak, size))

    def _allocated(self, sizes: Mapping[int, None], needs: Mapping[str, int]) -> tuple[int, int]:
        """Try to allocate each of the sizes in turn; return (address, size) of the first that succeeds."""
        for size in sizes:
            try:
                return self.memory.allocate(size), size
            except DeviceError as error:
                problem = error
        raise _refusal(needs, f"the device refuses: {problem}") from problem

    def _room(self, held: int) -> tuple[int, str]:
        """Return the greatest number of bytes of all slabs together, and a text that names the cause of this limit."""
        if self.limit is not None:
            return self.limit, f"the heap is limited to {self.limit} bytes"
        left, total = self.memory.free_memory()
        return left + held, f"the device has {left} of {total} bytes left"

    def most_bytes(self) -> tuple[int, str]:
        """Return the most adstack bytes that a stream can ever have, and a text that names the cause of this limit."""
        if self.limit is not None:
            return self.limit, "the heap is limited to"
        return self.memory.free_memory()[1], "the device has"

    def base(self, name: str, void: int = 0) -> int:
        """Return the address of a slab; an empty slab has `void` bytes, which reads of empty adstacks may use."""
        found = self._slabs.by_name[name].base
        if found or not void:
            return found
        if self._slabs.void.current < void:
            old, self._slabs.void = self._slabs.void, DeviceSlab()
            if old.base:
                self.memory.wait(self._stream)
                self.memory.free(old.base)
            size = _round(void)
            self._slabs.void = DeviceSlab(self.memory.allocate(size), size, size)
            self._renew_epoch()
        return self._slabs.void.base

    def renew(self) -> None:
        """Start a new epoch of the current stream's adstack memory, which invalidates its ready launches."""
        with self.lock:
            self._renew_epoch()

    def _renew_epoch(self) -> None:
        """Start a new epoch of the current stream's slabs, which invalidates their ready launches."""
        self.words[EPOCH] = self._slabs.epoch = next(_EPOCHS)

    def report(self) -> dict[str, dict[str, int]]:
        """Return {"real": {"current": bytes, "peak": bytes}, ...} of all streams; peak since the last reset."""
        with self.lock:
            found = list(self._streams.values())
        return {
            name: {
                "current": sum(slabs.by_name[name].current for slabs in found),
                "peak": sum(slabs.by_name[name].peak for slabs in found),
            }
            for name in SLABS
        }

    def reset(self) -> None:
        """Free all memory and forget the peaks; no launch that uses the heap may be in flight."""
        with self.lock:
            for slabs in self._streams.values():
                for address in slabs.addresses():
                    self.memory.free(address)
            self._streams = {self._stream: _Slabs(next(_EPOCHS))}
            self.use(self._stream)


def _refusal(needs: Mapping[str, int], reason: str) -> HeapRefusal:
    """Return the error that adstacks need more memory than the device has, with sizes and reason."""
    sizes = ", ".join(f"{need} bytes of {name} slots" for name, need in needs.items() if need)
    return HeapRefusal(f"the adstacks need {sizes}, and {reason}")


def _round(size: int) -> int:
    """Return the size rounded up to a multiple of GRAIN."""
    return -(-size // GRAIN) * GRAIN
