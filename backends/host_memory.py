"""Find how much memory this process may still use, as limited by the machine and by its control groups.

Numbers are read anew at each call, because other processes change them. A number that cannot be read sets no limit.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

UNLIMITED = 1 << 62
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def map_pages(size: int) -> mmap.mmap:
    """Map private memory of this process, filled with zeros, of which no page is backed before it is touched.

    The memory goes back to the system with the object.

    Raises:
        OSError, OverflowError: if the system refuses so much
    """
    if os.name == "nt":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def available_memory() -> tuple[int, str]:
    """Return the bytes of memory that this process may still use, and a text that names what sets this limit.

    The result is the least of what the machine and each control group leaves.
    """
    found = [(_machine(), "this machine has"), *((room, "the process's control group has") for room in _groups())]
    return min(found)


@cache
def memory_of_machine() -> tuple[int, str]:
    """Return the greatest number of bytes that a launch can have, and a text that names what sets this limit.

    This is what the machine has, or what the process may ever use.
    """
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        most = UNLIMITED
    fields = dict(line.split(":", 1) for line in _lines(PROC / "meminfo") if ":" in line)
    swap = fields.get("SwapTotal", "0").split()[0]
    most += 1024 * int(swap) if swap.isdigit() else 0
    return (most, "this machine has") if most <= address_limit() else (address_limit(), "`ulimit -v` leaves")


def address_limit() -> int:
    """Return the process's limit of address space in bytes (`ulimit -v`), or UNLIMITED."""
    try:
        import resource
    # This system has no such limits.
    except ImportError:
        return UNLIMITED
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _machine() -> int:
    """Return the bytes of memory and swap that are free or can be freed; if unknown, all memory."""
    fields = dict(line.split(":", 1) for line in _lines(PROC / "meminfo") if ":" in line)
    try:
        return 1024 * sum(int(fields[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (KeyError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return UNLIMITED


def _groups() -> Iterator[int]:
    """Yield the bytes of memory that each control group around the process still allows it to use."""
    for line in _lines(PROC / "self" / "cgroup"):
        # A line without controllers is of the second version of the interface, any other of the first.
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "-", "")
        if controllers == "":
            root, most, used = GROUPS, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, most, used = GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / path.strip("/")
        for folder in (group, *group.parents):
            limit = _number(folder / most)
            if limit is not None and limit < UNLIMITED:
                yield max(0, limit - (_number(folder / used) or 0) + _cached(folder))
            if folder == root:
                break


def _cached(folder: Path) -> int:
    """Return the bytes of cached files that count as memory of a control group but that the system can free."""
    for line in _lines(folder / "memory.stat"):
        name, _, number = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and number.isdigit():
            return int(number)
    return 0


def _number(path: Path) -> int | None:
    """Return the non-negative integer that a text file holds, or None if it holds no such number."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    """Return the lines of a text file, or an empty list if the file cannot be read."""
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
