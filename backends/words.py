"""This module defines the 64-bit words that Python and the launch trampoline share, and their offsets.

A run of words is an `array.array("q")` that is never resized, so that its address lasts as long as the Python object
that owns it. Invariant: a native reader holds the interpreter's lock, and reaches a run only through an object that is
alive, or through a handle that was made invalid when the owner of the run died.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

WATCHED, GENERATION, STAMP = range(3)
"""Words of the runtime.

WATCHED is not 0 while something must see every launch. GENERATION is the present generation. STAMP is the last native
version.
"""

(VERSION, EXPORTED, LIVING, KIND, ADDRESS, BYTES, GRADIENT, EXTENTS) = range(8)
"""Words of an array of the runtime.

* VERSION: its version.
* EXPORTED: not 0 if other code can write the array.
* LIVING: the generation in which the array may be used.
* KIND: a number for all that a specialization depends on, 0 if there is none.
* ADDRESS, BYTES: address and bytes of its memory.
* GRADIENT: address of the words of its adjoint, or 0.
* EXTENTS: the first of its extents.
"""

AXES = 8
"""Number of extents kept in words; an array of more axes is of kind 0, which no trampoline takes."""

LAUNCHES, CACHE_HITS, LAST = range(3)
"""Words of a launcher: two counters, and the number of the handle that launched last, 0 for none."""

EPOCH, BUSY = range(2)
"""Words of a heap: EPOCH changes whenever an address does; BUSY is not 0 while a launch uses the heap."""


def words(values: Iterable[int]) -> array[int]:
    """Return an array of 64-bit words with the given values."""
    return array("q", values)


def array_words() -> array[int]:
    """Return zeroed words of the size in which the trampoline describes one array (address and extents)."""
    return array("q", bytes(8 * (EXTENTS + AXES)))


def address_of(run: array[int]) -> int:
    """Return the memory address of a word array, valid as long as the array object lives."""
    return run.buffer_info()[0]
