"""The adstack heap of a backend on host memory: one slab per kind of slot, shared by all kernels.

Stacks are empty at the start of every iteration, so a slab carries nothing from launch to launch: it may be replaced
by a larger one, never copied. A slab grows by at least half, so that a program whose needs creep up allocates a few
times only; the first request, and one that the machine could not otherwise serve, is met exactly.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..compiler.errors import DeviceError
from .base import SLABS

PAGE = 4096


def physical_memory() -> int:
    """Bytes of memory the machine has; where that is not known, no limit."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


@dataclass
class Slab:
    """One run of memory. base: its address, a multiple of the page size; 0 if there is none."""

    memory: np.ndarray | None = None
    base: int = 0
    current: int = 0
    peak: int = 0


@dataclass
class Heap:
    """Slabs by name. lock: held by a launch that uses adstacks. epoch: changes whenever an address does."""

    limit: int = field(default_factory=physical_memory)
    lock: threading.RLock = field(default_factory=threading.RLock)
    epoch: int = 0
    slabs: dict[str, Slab] = field(default_factory=lambda: {name: Slab() for name in SLABS})

    def reserve(self, needs: Mapping[str, int], what: str) -> None:
        """Make every slab at least so many bytes large. DeviceError, naming `what`, if the machine cannot.

        A refused request leaves every slab as it was.
        """
        grown = {name: need for name, need in needs.items() if need > self.slabs[name].current}
        if not grown:
            return
        kept = sum(s.current for name, s in self.slabs.items() if name not in grown)
        if kept + sum(grown.values()) > self.limit:
            raise self._refusal(grown, what, f"the machine has {self.limit} bytes of memory")
        fresh = {name: self._allocate(name, need, grown, kept, what) for name, need in grown.items()}
        for name, (memory, size) in fresh.items():
            slab = self.slabs[name]
            self.slabs[name] = Slab(memory, _aligned(memory), size, max(slab.peak, size))
        self.epoch += 1

    def _allocate(
        self, name: str, need: int, grown: Mapping[str, int], kept: int, what: str
    ) -> tuple[np.ndarray, int]:  # fmt: skip
        current = self.slabs[name].current
        ample = _round(max(need, current + current // 2)) if current else _round(need)
        if kept + sum(grown.values()) - need + ample > self.limit:
            ample = _round(need)
        for size in dict.fromkeys((ample, _round(need))):
            try:
                return np.empty(size + PAGE, np.uint8), size
            except MemoryError:
                continue
        raise self._refusal(grown, what, "the system refuses to give so much")

    def _refusal(self, grown: Mapping[str, int], what: str, reason: str) -> DeviceError:
        sizes = ", ".join(f"{need} bytes of {name} slots" for name, need in grown.items())
        return DeviceError(f"{what}: the adstacks need {sizes}, and {reason}; nothing was run")

    def report(self) -> dict[str, dict[str, int]]:
        """{"real": {"current": bytes, "peak": bytes}, ...}; peak since the last reset."""
        return {name: {"current": slab.current, "peak": slab.peak} for name, slab in self.slabs.items()}

    def reset(self) -> None:
        """Give everything back and forget the peaks."""
        with self.lock:
            self.slabs = {name: Slab() for name in SLABS}
            self.epoch += 1


def _round(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _aligned(memory: np.ndarray) -> int:
    start = memory.__array_interface__["data"][0]
    return int(-(-start // PAGE) * PAGE)
