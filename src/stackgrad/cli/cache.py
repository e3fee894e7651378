"""Run `stackgrad cache`: show the folder, number, size and age of cached compiled kernels; `--clear` removes them."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator

from ..backends import disk_cache
from ..backends.disk_cache import CacheFile, DiskCache
from . import CommandError

_UNITS = ("B", "KiB", "MiB", "GiB")
_SPANS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def run(given: argparse.Namespace) -> int:
    """Print the folder, number, size and age of cached kernels, or remove them with `--clear`. Return 0."""
    cache = disk_cache.chosen_cache()
    if cache is None:
        raise CommandError("there is no place for a cache: no home folder; set STACKGRAD_CACHE_DIR", 1)
    if given.clear:
        print(f"{cache.folder}: {_cleared(cache)} entries removed")
    else:
        print("\n".join(_described(cache)))
    return 0


def _cleared(cache: DiskCache) -> int:
    """Remove all entries of the disk cache. Return their number."""
    try:
        return cache.clear()
    except OSError as error:
        raise CommandError(f"{cache.folder} cannot be cleared: {error.strerror}{_cure(cache)}", 1) from None


def _cure(cache: DiskCache) -> str:
    """Return a text to append to a message if the cache folder is a symbolic link, or "" if it is not."""
    return "; remove the link, or name the folder itself in STACKGRAD_CACHE_DIR" if cache.folder.is_symlink() else ""


def _described(cache: DiskCache) -> Iterator[str]:
    """Yield lines that describe the disk cache: folder, number of entries, size and ages."""
    entries = cache.entries()
    yield f"{'folder':10}{cache.folder}"
    yield f"{'entries':10}{len(entries)}"
    yield f"{'size':10}{size(sum(entry.bytes for entry in entries))} of at most {size(cache.limit)}"
    if entries:
        yield f"{'last used':10}{_age(entries[-1])} ago, the first to go {_age(entries[0])} ago"
    strange = cache.strange()
    if strange:
        yield f"{'strange':10}{len(strange)} in places of entries, not used, removed by --clear: {_kinds(strange)}"
    reason = "STACKGRAD_CACHE turns it off" if disk_cache.active_cache() is None else cache.distrust()
    yield f"{'state':10}{'not used: ' + reason if reason else 'in use'}"
    variables = [name for name in ("STACKGRAD_CACHE_DIR", "STACKGRAD_CACHE_LIMIT") if os.environ.get(name)]
    if variables:
        yield f"{'set by':10}{', '.join(variables)}"


def _kinds(strange: list[CacheFile]) -> str:
    return ", ".join(dict.fromkeys(entry.strange for entry in strange))


def size(count: int) -> str:
    """Return a number of bytes as a text with a unit, such as KiB."""
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{count} B"


def _age(entry: CacheFile) -> str:
    """Return the time since a cache entry was last used, as a text with a unit."""
    seconds = max(time.time() - entry.used, 0.0)
    length, name = next((s for s in _SPANS if seconds >= 2 * s[0]), _SPANS[-1])
    return f"{seconds / length:.0f} {name}"
