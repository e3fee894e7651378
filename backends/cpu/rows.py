"""This module decides how many rows of adstacks a CPU launch uses: one per thread, or one per lane.

A thread keeps its row for all its iterations, so a row is as wide as the deepest iteration: T threads cost T times the
deepest row, however little the other iterations push. Therefore

    T = clamp(1.1 · content / deepest row, 1, threads)

with the content, what all iterations push together, from the counting kernel. More threads could not help: the time of
a task is at least that of its deepest row, and content / deepest row threads reach it. Lanes run in step, so their rows
are as deep as the deepest too, and they are had under the same bound. Rows that fit a cache are never worth sharing:
below FLOOR bytes a task has all that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base import Concurrency

FLOOR = 256 << 10
"""Bytes of rows of one task that it always gets: they stay in the second-level cache."""

LANES_WORTH = 8
"""Number of threads of branching code that lanes are worth: measured 10 to 40 on one thread."""


def most_in_flight(row: int, content: int | None, threads: int, lanes: int, forced: bool = False) -> Concurrency:
    """Return how many threads and lanes may run a task so that the adstack rows of all lanes fit into memory.

    Args:
        row: Bytes of the deepest iteration.
        content: Bytes that all iterations push; None if it is not known, then rows are assumed to be alike.
        threads: Number of threads of the launch.
        lanes: Lanes of the task's masked code; 0 or 1 means that it has none.
        forced: Lanes are used at any cost.
    """
    lanes = max(lanes, 1)
    if row == 0 or forced and lanes > 1:
        return Concurrency(threads, lanes)
    alike = content is None
    room = max(FLOOR, row * threads if content is None else content + content // 10)
    plain = min(max(room // row, 1), threads)
    # If the content is not known, lanes must do with FLOOR bytes.
    masked = min((FLOOR if alike else room) // (row * lanes), threads) if lanes > 1 else 0
    return Concurrency(masked, lanes) if masked * LANES_WORTH >= plain else Concurrency(plain)


def content_of(stacks: Iterable[tuple[int, int | None]]) -> int | None:
    """Return the bytes that all iterations push onto the given stacks, or None if a stack's pushes were not counted.

    Args:
        stacks: Bytes of a slot of each stack, and values pushed over all iterations, if counted.
    """
    found = 0
    for slot, total in stacks:
        if total is None:
            return None
        found += slot * total
    return found
