"""This module copies arrays to memory between guard pages, so that accesses outside an array are detected.

An array ends where a guard page begins, and another guard page lies before its first page; an access to a guard page
ends the process. The bytes between the first guard page and the array hold a pattern, which `is_whole` checks.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...backends.heap import PAGE
from ...backends.host_memory import map_pages

WALLED = sys.platform == "linux"
"""True if pages can be protected. On other systems arrays lie in ordinary memory, and only the pattern is checked."""

PATTERN = 0xA5


@dataclass
class GuardedArrays:
    """Hold copies of arrays by name, each between guard pages, which fault if they are accessed.

    The copies stay readable as long as this object lives.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    _memory: list[tuple[mmap.mmap, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> GuardedArrays:
        """Return copies of the arrays, each between guard pages of its own."""
        made = cls()
        for name, array in arrays.items():
            made.arrays[name] = made._copy(array)
        return made

    def _copy(self, array: np.ndarray) -> np.ndarray:
        inner = -(-max(array.nbytes, 1) // PAGE) * PAGE
        memory = map_pages(inner + 2 * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        # The array ends exactly at the guard page behind it, so that the first byte after the array cannot be touched.
        start = PAGE + inner - array.nbytes
        memory[PAGE:start] = bytes([PATTERN]) * (start - PAGE)
        copy: np.ndarray = np.ndarray(array.shape, array.dtype, memory, start)
        copy[...] = array
        for wall in (0, PAGE + inner):
            _close(base + wall)
        self._memory.append((memory, PAGE, start))
        return copy

    @property
    def is_whole(self) -> bool:
        """Return True if no byte between a guard page and its array has been overwritten."""
        return all(not memory[low:high].strip(bytes([PATTERN])) for memory, low, high in self._memory)


def _close(address: int) -> None:
    """Protect a page, so that every later access to it faults."""
    if WALLED:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if libc.mprotect(address, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect failed")
