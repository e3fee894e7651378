"""Words of native memory that Python and the launch trampoline share: their places, and who owns them.

A run of words is an `array.array("q")` that is never resized, so that its address lasts as long as the Python object
that owns it. Invariant: a native reader holds the interpreter's lock, and reaches a run only through an object that
is alive, or through a handle that was made invalid when the owner of the run died.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

WATCHED, GENERATION, STAMP = range(3)
"""Of the runtime: not 0 while something must see every launch; the present generation; the last native version."""

(VERSION, EXPORTED, LIVING, KIND, ADDRESS, BYTES, GRADIENT, EXTENTS) = range(8)
"""Of an array of the runtime: its version; whether others can write it; the generation in which it may be used; a
number for all that a specialisation depends on, 0 if there is none; address and bytes of its memory; address of the
words of its adjoint, or 0; then its extents."""

AXES = 8
"""Extents kept in words. An array of more axes is of kind 0, which no trampoline takes."""

LAUNCHES, CACHE_HITS, LAST = range(3)
"""Of a launcher: counters, and the number of the handle that launched last, 0 for none."""

EPOCH, BUSY = range(2)
"""Of a heap: changes whenever an address does; not 0 while a launch from the trampoline uses it."""


def words(values: Iterable[int]) -> array[int]:
    """A run of words."""
    return array("q", values)


def array_words() -> array[int]:
    """Those of an array without memory."""
    return array("q", bytes(8 * (EXTENTS + AXES)))


def address_of(run: array[int]) -> int:
    """Where a run lies, for as long as the object lives."""
    return run.buffer_info()[0]
