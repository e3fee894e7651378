"""How many rows of adstacks a launch has on a CPU: one for each thread of a task, or for each lane of each thread.

A thread keeps its row for all its iterations, so a row is as wide as the deepest iteration: T threads cost T times
the deepest row, however little the others push. Therefore

    T = clamp(1.1 · content / deepest row, 1, threads)

with the content, what all iterations push together, from the counting kernel. More threads could not help: the time
of a task is at least that of its deepest row, and content / deepest row threads reach it. Lanes run in step, so their
rows are as deep as the deepest too, and they are had under the same bound. Rows that fit a cache are never worth
sharing: below FLOOR bytes a task has all that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base import Flight

FLOOR = 256 << 10
"""Bytes of rows of one task that are had for the asking: they stay in the second-level cache."""

LANES_WORTH = 8
"""Threads of branching code that lanes under masks are worth: measured 10 to 40 on one thread."""


def most_in_flight(row: int, content: int | None, threads: int, lanes: int, forced: bool = False) -> Flight:
    """What a task may run at once.

    row: bytes of the deepest iteration. content: bytes that all iterations push; None if that is not known, then rows
    are taken to be alike. threads: that there are. lanes: of the task's masked code; 0 or 1: none. forced: lanes are
    had at any cost.
    """
    lanes = max(lanes, 1)
    if row == 0 or forced and lanes > 1:
        return Flight(threads, lanes)
    alike = content is None
    room = max(FLOOR, row * threads if content is None else content + content // 10)
    plain = min(max(room // row, 1), threads)
    masked = min((FLOOR if alike else room) // (row * lanes), threads) if lanes > 1 else 0
    return Flight(masked, lanes) if masked * LANES_WORTH >= plain else Flight(plain)


def content_of(stacks: Iterable[tuple[int, int | None]]) -> int | None:
    """Bytes that all iterations push. stacks: bytes of a slot, and values pushed over all iterations, if counted."""
    found = 0
    for slot, total in stacks:
        if total is None:
            return None
        found += slot * total
    return found
