"""This module counts launches, sizings and compile time of one launcher."""

from __future__ import annotations

from ..words import CACHE_HITS, LAUNCHES, words


class LaunchStats:
    """Count the launches and sizings of one launcher since its creation.

    Attributes:
        words: counters that native launches also count (words.py)
        countings: runs of the counting kernel
        evaluations: sizes found by their expressions
        markings: launches of the marking kernel
        waits: waits for a device before launches could be made
        readbacks: copies from a device before launches could be made
        compile_seconds: seconds spent in compilation
    """

    __slots__ = ("words", "countings", "evaluations", "markings", "waits", "readbacks", "compile_seconds")

    def __init__(self) -> None:
        self.words = words((0, 0, 0))
        self.countings = 0
        self.evaluations = 0
        self.markings = 0
        self.waits = 0
        self.readbacks = 0
        self.compile_seconds = 0.0

    @property
    def launches(self) -> int:
        """Return the number of launches, including those that raised an exception."""
        return self.words[LAUNCHES]

    @property
    def cache_hits(self) -> int:
        """Return the number of launches whose adstack sizes were found in the cache of sizes."""
        return self.words[CACHE_HITS]
