"""Define an adstack heap that detects accesses outside of adstacks, by guard pages and gaps.

Every request gets new memory whose end is the first byte of a page that cannot be touched, and whose beginning follows
such a page, so that an access outside a slab ends the process. Between the stacks of a row lie bytes that belong to no
stack; `stray` returns those that a launch changed. With malloc, a tool such as valgrind detects accesses outside a
slab.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from stackgrad.backends.base import SLABS, Sizes
from stackgrad.backends.codegen.layout import StackLayout
from stackgrad.backends.cpu import stacks
from stackgrad.backends.cpu.stacks import StackPlacement
from stackgrad.backends.heap import PAGE, Heap, Slab
from stackgrad.backends.host_memory import map_pages
from stackgrad.backends.words import EPOCH

PATTERN, GAP, PROT_NONE = 0xA5, 64, 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_LIBC.aligned_alloc.restype = _LIBC.free.restype = ctypes.c_void_p
_LIBC.free.argtypes = [ctypes.c_void_p]


@dataclass
class GuardedHeap(Heap):
    """A heap with guards; `malloc` takes its memory from the C library, for valgrind."""

    malloc: bool = False
    walls: dict[str, object] = field(default_factory=dict)

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Allocate new slabs of these sizes, filled with a pattern."""
        for name in SLABS:
            self.slabs[name] = Slab()
            size = needs.get(name, 0)
            if size:
                base = self._between_walls(name, size)
                ctypes.memset(base, PATTERN, size)
                self.slabs[name] = Slab(None, base, size, size)
        self.renew()
        return True

    def renew(self) -> None:
        """Let the next launch write all addresses into its argument block again."""
        self.words[EPOCH] += 1

    def _between_walls(self, name: str, size: int) -> int:
        if self.malloc:
            base = _LIBC.aligned_alloc(64, size)
            self.walls[name] = _Freed(base)
            return int(base)
        inner = -(-size // PAGE) * PAGE
        memory = map_pages(inner + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.walls[name] = memory
        for wall in (start, start + PAGE + inner):
            assert _LIBC.mprotect(wall, PAGE, PROT_NONE) == 0
        return start + PAGE + inner - size

    def stray(self, placement: StackPlacement, sizes: Sizes) -> list[str]:
        """Return the bytes that a launch with these sizes wrote between its adstacks."""
        wrong = []
        for name, slab in self.slabs.items():
            if slab.base:
                owned = _owned(placement, sizes, name, slab.current, range(placement.options.threads))
                bad = np.flatnonzero(self._written(name) & ~owned)
                wrong += [f"{name} slab: byte {k} of {slab.current} belongs to no stack" for k in bad[:3]]
        return wrong

    def used_by_workers(self, placement: StackPlacement, sizes: Sizes) -> bool:
        """Return True if a thread other than the first one wrote into its row."""
        rows = range(1, placement.options.threads)
        return any(
            bool((self._written(name) & _owned(placement, sizes, name, slab.current, rows)).any())
            for name, slab in self.slabs.items()
            if slab.base
        )

    def _written(self, name: str) -> np.ndarray:
        slab = self.slabs[name]
        content = np.frombuffer((ctypes.c_ubyte * slab.current).from_address(slab.base), np.uint8)
        return np.asarray(content != PATTERN)


class _Freed:
    def __init__(self, base: int) -> None:
        self.base = base

    def __del__(self) -> None:
        _LIBC.free(self.base)


def _owned(placement: StackPlacement, sizes: Sizes, slab: str, size: int, rows: range) -> np.ndarray:
    """Return which bytes belong to a slot of some task, in rows laid out as [slot][lane]."""
    plan = stacks.plan(placement.layout, sizes, placement.flights(sizes))
    words, owned = dict(plan.words), np.zeros(size, bool)
    for stack in placement.layout.stacks:
        if stack.slab == slab:
            flight, slots = plan.flights[stack.task], words[stack.capacity_at]
            stride = words[placement.layout.strides[stack.task, slab]]
            for row in range(rows.start, min(rows.stop, flight.threads)):
                begin = flight.lanes * (row * stride + words[stack.offset_at])
                owned[begin : begin + flight.lanes * slots * stack.slot_bytes] = True
    return owned


@contextmanager
def published(capacities: Mapping[str, int]) -> Iterator[None]:
    """Make launches in the `with` block give adstacks these capacities, with gaps between the adstacks."""
    known, gap = stacks.stack_capacity, stacks.GAP

    def fewer(stack: StackLayout, sizes: Sizes) -> int:
        return min(known(stack, sizes), capacities.get(stack.alloca.stack, 1 << 62))

    stacks.stack_capacity, stacks.GAP = fewer, GAP
    try:
        yield
    finally:
        stacks.stack_capacity, stacks.GAP = known, gap
