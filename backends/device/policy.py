"""This module sets the numbers of threads and rows of a GPU task, and whether iterations that pass its gate are listed.

A row of T neighboring ones costs its deepest iteration, and T threads in flight want T rows. Histories that stay in
half of the second-level cache are read back at its speed, so

    T = clamp(2^floor(log2(L2 / 2 / row)), 16384, 65536)

threads, fewer where they do not fit a quarter of the device, where fewer iterations need a row, or where more would not
help: a warp is done when its iterations are, each as deep as the deepest of its lanes, so W warps are done after at
most content / W + row steps, with the content what all iterations push. That is no more than two deepest rows for

    32 · content / row

threads, and where the content is no more than two rows two threads do. So an iteration of 100,000 steps among 1,000 of
one step costs two deep rows, not 1,001. Rows come in multiples of a warp, so that a row's neighbors share its cache
lines, and of a block where there are many; there are fewer than a warp where rows are that deep.

Each thread has the row of its own number, so no task has more threads than rows and nothing is claimed on the device. A
gated task of which few iterations pass runs over a list of those (selection.py), on a thread for each: full warps, and
rows for passing iterations alone.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP, BLOCK = 32, 128
"""Rows of a parallel task come in multiples of these numbers: of BLOCK from MANY rows on, of WARP below."""

MANY = 1024

LEAST, MOST = 16384, 65536
"""Threads that fill a device, and threads beyond which more do not help: measured on an H100 and an H200."""

FREE = 1 << 20
"""Bytes of rows that a task always gets, however few iterations need a row."""

BUSY = 2
"""A thread decides several gates (chunks.py) if at least one in BUSY of the threads that a device holds is left."""

SPARSE = 2
"""A list is made where at most one in SPARSE iterations passes."""


@dataclass(frozen=True)
class DeviceLimits:
    """Represent the sizes of a GPU's cache and memory, which limit the number of threads and rows.

    Attributes:
        l2_bytes: Bytes of the second-level cache.
        memory_bytes: Bytes of the device's memory.
    """

    l2_bytes: int = 50 << 20
    memory_bytes: int = 80 << 30


@dataclass(frozen=True)
class TaskDemand:
    """Represent the adstack memory that a task needs, its number of iterations, and how many of these need rows.

    Attributes:
        row: Bytes of its deepest iteration, all slabs together.
        passing: Most iterations that need a row of one slab; None if they were not counted.
        content: Bytes that all iterations push; None if they were not counted.
        count: Iterations of the task; None if not known before the launch.
        gated: True if iterations that pass the gate of the task can be listed (selection.py).
    """

    row: int
    passing: int | None = None
    content: int | None = None
    count: int | None = None
    gated: bool = False


@dataclass(frozen=True)
class TaskGeometry:
    """Represent the number of rows (and threads) with which a task runs, and the capacity of its list of iterations.

    Attributes:
        rows: Rows held at once, and threads at most.
        listed: Capacity of the list of iterations that pass the gate, which is made first; 0 if no list is made.
    """

    rows: int
    listed: int = 0


def cached_threads(row: int, device: DeviceLimits) -> int:
    """Return the number of threads whose rows fit into half of the second-level cache, between LEAST and MOST."""
    fitting = device.l2_bytes // 2 // max(row, 1)
    return min(max(_power_below(fitting), LEAST), MOST)


def dispatch(demand: TaskDemand, device: DeviceLimits) -> TaskGeometry:
    """Return the number of rows and the list capacity with which a parallel task with adstacks runs."""
    threads, passing, count = _affordable(demand, device), demand.passing, demand.count
    everything = threads if count is None else min(threads, _warps(count))
    if passing is None:
        return TaskGeometry(everything)
    listed = _room(passing) if demand.gated and (count is None or passing * SPARSE <= count) else 0
    if not demand.row:
        return TaskGeometry(everything, listed)
    if listed:
        return TaskGeometry(min(threads, _warps(passing)), listed)
    wanted = passing if demand.gated or count is None else count
    cheap = FREE // demand.row if count is None else min(FREE // demand.row, count)
    return TaskGeometry(min(threads, _warps(max(wanted, cheap))))


def _room(passing: int) -> int:
    """Return the capacity of an iteration list for `passing` counted iterations, with some reserve."""
    # Iterations that pass the gate and push nothing were not counted: some fit, and with more of them the task runs
    # over all its iterations.
    return passing + passing // 16 + 256


def _affordable(demand: TaskDemand, device: DeviceLimits) -> int:
    """Return the largest number of threads for which memory suffices and which still shortens the launch."""
    row = max(demand.row, 1)
    most = max(device.memory_bytes // 4 // row, 1)
    if demand.content is not None:
        worth = 2 if demand.content <= 2 * row else WARP * demand.content // row
        most = min(most, max(worth, FREE // row))
    return min(cached_threads(row, device), most if most < WARP else _warps(most))


def halve_rows(found: TaskGeometry) -> TaskGeometry:
    """Return the same geometry with half the rows, but at least one."""
    rows = found.rows // 2
    return TaskGeometry(_warps(rows) if rows >= WARP else max(rows, 1), found.listed)


def _warps(rows: int) -> int:
    """Return the number of rows rounded up to whole warps, or to whole thread blocks if there are many rows."""
    unit = WARP if rows < MANY else BLOCK
    return max(-(-rows // unit), 1) * unit


def _power_below(number: int) -> int:
    """Return the largest power of two that is at most `number`; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number else 0
