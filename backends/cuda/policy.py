"""How many threads a task with adstacks has on a device, how many rows, and whether it runs over a list.

A row of T neighbouring ones costs its deepest iteration, and T threads in flight want T rows. Histories that stay in
half of the second-level cache are read back at its speed, so

    T = clamp(2^floor(log2(L2 / 2 / row)), 16384, 65536)

threads, fewer where they do not fit a quarter of the device, where fewer iterations need a row, or where more would
not help: a warp is done when its iterations are, each as deep as the deepest of its lanes, so W warps are done after at
most content / W + row steps, with the content what all iterations push. That is no more than two deepest rows for

    32 · content / row

threads, and where the content is no more than two rows two threads do. So an iteration of 100,000 steps among 1,000 of
one step costs two deep rows, not 1,001. Rows come in multiples of a warp, so that a row's neighbours share its cache
lines, and of a block where there are many; there are fewer than a warp where rows are that deep.

Each thread has the row of its own number, so no task has more threads than rows and nothing is claimed on the device.
A gated task of which few iterations pass runs over a list of those (selection.py), on a thread for each: full warps,
and rows for passing iterations alone.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP, BLOCK = 32, 128
"""Rows of a parallel task come in multiples of these: of BLOCK from MANY on."""

MANY = 1024

LEAST, MOST = 16384, 65536
"""Threads that fill a device, and those beyond which more do not help: measured on an H100 and an H200."""

FREE = 1 << 20
"""Bytes of rows that a task has for the asking, however few iterations need one."""

BUSY = 2
"""A thread decides several gates (chunks.py) where threads are left for one in so many of those that a device holds."""

SPARSE = 2
"""A list is made where at most one in so many iterations passes."""


@dataclass(frozen=True)
class Device:
    """What decides how much runs at once. l2_bytes: of the second-level cache. memory_bytes: of the device."""

    l2_bytes: int = 50 << 20
    memory_bytes: int = 80 << 30


@dataclass(frozen=True)
class Demand:
    """What a task asks for.

    row: bytes of its deepest iteration, all slabs. passing: the most iterations that need a row of one slab, None if
    that was not counted. content: bytes that all iterations push, None if not counted. count: iterations of the task,
    None if not known before the launch. gated: a list of what passes can be made (selection.py).
    """

    row: int
    passing: int | None = None
    content: int | None = None
    count: int | None = None
    gated: bool = False


@dataclass(frozen=True)
class Dispatch:
    """What a task gets. rows: held at once, and threads at most. listed: iterations for which the list that is made
    first has room, 0 if none is.
    """

    rows: int
    listed: int = 0


def fill(row: int, device: Device) -> int:
    """Threads whose rows stay in half of the second-level cache, within what suits a device."""
    fitting = device.l2_bytes // 2 // max(row, 1)
    return min(max(_power_below(fitting), LEAST), MOST)


def dispatch(demand: Demand, device: Device) -> Dispatch:
    """How a parallel task with stacks runs."""
    threads, passing, count = _affordable(demand, device), demand.passing, demand.count
    everything = threads if count is None else min(threads, _warps(count))
    if passing is None:
        return Dispatch(everything)
    listed = _room(passing) if demand.gated and (count is None or passing * SPARSE <= count) else 0
    if not demand.row:
        return Dispatch(everything, listed)
    if listed:
        return Dispatch(min(threads, _warps(passing)), listed)
    wanted = passing if demand.gated or count is None else count
    cheap = FREE // demand.row if count is None else min(FREE // demand.row, count)
    return Dispatch(min(threads, _warps(max(wanted, cheap))))


def _room(passing: int) -> int:
    """Entries of a list. Iterations that pass the gate and push nothing were not counted: some fit, and with more of
    them the task runs over all its iterations.
    """
    return passing + passing // 16 + 256


def _affordable(demand: Demand, device: Device) -> int:
    """Threads for which there is a row each, at most as many as help."""
    row = max(demand.row, 1)
    most = max(device.memory_bytes // 4 // row, 1)
    if demand.content is not None:
        worth = 2 if demand.content <= 2 * row else WARP * demand.content // row
        most = min(most, max(worth, FREE // row))
    return min(fill(row, device), most if most < WARP else _warps(most))


def halved(found: Dispatch) -> Dispatch:
    """The same with half the rows, down to one."""
    rows = found.rows // 2
    return Dispatch(_warps(rows) if rows >= WARP else max(rows, 1), found.listed)


def _warps(rows: int) -> int:
    """Rounded up to whole warps, one at least, or to whole blocks."""
    unit = WARP if rows < MANY else BLOCK
    return max(-(-rows // unit), 1) * unit


def _power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number else 0
