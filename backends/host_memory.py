"""How much memory this process may still back: what the machine has left, and what its control groups allow.

Numbers are read anew at each call, because other processes change them; what cannot be read sets no limit.
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
    """Private memory of this process, zero, no page of it backed before it is touched.

    Raises OSError or OverflowError if the system refuses so much. It goes back to the system with the object.
    """
    if os.name == "nt":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def available_memory() -> tuple[int, str]:
    """(bytes that may still be touched, who says so). The least of what the machine and each control group leaves."""
    found = [(_machine(), "this machine has"), *((room, "the process's control group has") for room in _groups())]
    return min(found)


@cache
def memory_of_machine() -> tuple[int, str]:
    """(bytes that the machine has, or the process may ever use, who says so): what no launch can go beyond."""
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        most = UNLIMITED
    fields = dict(line.split(":", 1) for line in _lines(PROC / "meminfo") if ":" in line)
    swap = fields.get("SwapTotal", "0").split()[0]
    most += 1024 * int(swap) if swap.isdigit() else 0
    return (most, "this machine has") if most <= address_limit() else (address_limit(), "`ulimit -v` leaves")


def address_limit() -> int:
    """Bytes of addresses that the process may have (`ulimit -v`); UNLIMITED if there is no such limit."""
    try:
        import resource
    except ImportError:  # not on this system
        return UNLIMITED
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _machine() -> int:
    """Memory and swap that are free or can be freed; where the kernel does not say, all memory there is."""
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
    """What each group around the process leaves; files of the kernel's first and second version of the interface."""
    for line in _lines(PROC / "self" / "cgroup"):
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
    """Bytes of files that the group's usage counts and that the kernel gives up when memory is wanted."""
    for line in _lines(folder / "memory.stat"):
        name, _, number = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and number.isdigit():
            return int(number)
    return 0


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
