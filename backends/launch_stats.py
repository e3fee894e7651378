"""Counters of a launcher."""

from __future__ import annotations

from .words import CACHE_HITS, LAUNCHES, words


class LaunchStats:
    """Counters of one launcher since it was made. countings: runs of the counting kernel. evaluations: sizes found by
    their expressions. cache_hits: launches whose sizes were known. markings: launches of the marking kernel. waits,
    readbacks: for a device and from it, before launches could be made. words: those that native launches count, see
    words.py.
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
        """Launches, of which some raised."""
        return self.words[LAUNCHES]

    @property
    def cache_hits(self) -> int:
        """Launches whose sizes were known."""
        return self.words[CACHE_HITS]
