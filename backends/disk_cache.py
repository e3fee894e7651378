"""Entries on disk that outlive the process: what was compiled once is loaded by the next one.

A folder of the user's own, one file per entry, named by its key: a hash of all that decides the content. Invariant: an
entry that is given out is, byte for byte, one that this format wrote under this key; whatever else lies there is no
entry. An entry appears whole or not at all (it is written beside its place and moved there), so that any number of
processes may share the folder. Nothing here raises: a cache that cannot be used costs time alone, and one warning.
"""
from __future__ import annotations

import hashlib
import itertools
import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..compiler.errors import warn

MAGIC = b"stackgrad cache 1\n"
_HEAD = struct.Struct(f"<{len(MAGIC)}s32s32sQ")
_SUFFIX, _PART = ".entry", ".part"
LIMIT = 256 << 20
"""Bytes of all entries, above which the oldest go; the variable STACKGRAD_CACHE_LIMIT replaces it."""
_KEEP = 0.75
"""Share of the limit that is left after entries went."""
_STALE = 3600.0
"""Seconds after which an unfinished file is one of a process that died."""
_FRESH = 86400.0
"""Seconds in which a use of an entry need not be noted again."""


class CacheWarning(UserWarning):
    """The cache on disk, or an entry of it, cannot be used; the program is compiled as without it."""


class Entry(NamedTuple):
    """A file of the cache. used: when it was written or last used, seconds since the epoch."""

    path: Path
    bytes: int
    used: float


def key(*parts: str | bytes) -> bytes:
    """The key of an entry: a hash of its parts, 32 bytes."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.digest()


class DiskCache:
    """The entries of a folder, which is made, for the user alone, when the first entry is written."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._trusted: bool | None = None
        self._bytes: int | None = None
        self._warned = False
        self._numbers = itertools.count()

    def get(self, key: bytes) -> bytes | None:
        """The content under a key; None if there is none that can be used."""
        if not self._is_trusted():
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"{path} cannot be read: {_reason(error)}")
            return None
        content = _content(data, key)
        if content is None:
            self._warn(f"{path} is damaged, or of another version: it is not used")
            return None
        self._note_use(path)
        return content

    def put(self, key: bytes, content: bytes) -> None:
        """Write an entry, if that is possible."""
        if not self._is_trusted(make=True):
            return
        part = self.folder / f"{os.getpid()}.{threading.get_ident()}.{next(self._numbers)}{_PART}"
        try:
            try:
                self._write(part, _HEAD.pack(MAGIC, key, hashlib.sha256(content).digest(), len(content)) + content)
                os.replace(part, self._path(key))
            finally:
                part.unlink(missing_ok=True)
            self._count(len(content) + _HEAD.size)
        except OSError as error:
            self._warn(f"an entry cannot be written to {self.folder}: {_reason(error)}")

    def entries(self) -> list[Entry]:
        """All entries, the one used longest ago first."""
        return sorted(self._files(_SUFFIX), key=lambda entry: entry.used)

    def clear(self) -> int:
        """Remove all entries; gives how many there were. Raises OSError if one cannot be removed."""
        found = [*self._files(_SUFFIX), *self._files(_PART)]
        for entry in found:
            entry.path.unlink(missing_ok=True)
        self._bytes = None
        return sum(entry.path.suffix == _SUFFIX for entry in found)

    def distrust(self) -> str:
        """Why the folder, as it is now, is not used; empty if it is, or will be once it is made."""
        try:
            return _distrust(self.folder)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return _reason(error)

    # -- files ----------------------------------------------------------------------------------------------

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()}{_SUFFIX}"

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)

    def _files(self, suffix: str) -> Iterator[Entry]:
        try:
            with os.scandir(self.folder) as found:
                for item in found:
                    if item.name.endswith(suffix):
                        try:
                            about = item.stat(follow_symlinks=False)
                        except OSError:  # another process has removed it
                            continue
                        yield Entry(Path(item.path), about.st_size, about.st_mtime)
        except OSError:
            return

    def _note_use(self, path: Path) -> None:
        try:
            if time.time() - path.stat().st_mtime > _FRESH:
                os.utime(path)
        except OSError:
            pass

    def _count(self, added: int) -> None:
        """Keep the sum of all entries, as far as this process knows it, under the limit."""
        if self._bytes is None:
            self._bytes = sum(entry.bytes for entry in self._files(_SUFFIX))
        else:
            self._bytes += added
        if self._bytes > self.limit:
            self._evict()

    def _evict(self) -> None:
        entries = self.entries()
        total = sum(entry.bytes for entry in entries)
        for entry in entries:
            if total <= self.limit * _KEEP:
                break
            entry.path.unlink(missing_ok=True)
            total -= entry.bytes
        self._bytes = total
        for left in self._files(_PART):
            if time.time() - left.used > _STALE:
                left.path.unlink(missing_ok=True)

    # -- trust ----------------------------------------------------------------------------------------------

    def _is_trusted(self, make: bool = False) -> bool:
        """Whether the folder is there, the user's own, and nobody else can write to it; looked at once."""
        if self._trusted is None:
            try:
                if make:
                    self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                reason = _distrust(self.folder)
            except FileNotFoundError:
                return False  # it may be made later
            except OSError as error:
                reason = _reason(error)
            self._trusted = not reason
            if reason:
                self._warn(f"{self.folder} is not used: {reason}")
        return self._trusted

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            cure = "set STACKGRAD_CACHE_DIR to another folder, or STACKGRAD_CACHE=0 to do without"
            warn(f"cache of compiled kernels: {text}; {cure}", CacheWarning)


def _content(data: bytes, key: bytes) -> bytes | None:
    """The content of a file; None if it is not an entry of this format under this key."""
    if len(data) < _HEAD.size:
        return None
    magic, own, digest, size = _HEAD.unpack_from(data)
    content = data[_HEAD.size :]
    is_whole = magic == MAGIC and own == key and size == len(content)
    return content if is_whole and hashlib.sha256(content).digest() == digest else None


def _distrust(folder: Path) -> str:
    """Why code from a folder must not be run; empty if it may. Raises OSError."""
    about = folder.stat()
    if not stat.S_ISDIR(about.st_mode):
        return "it is not a folder"
    if hasattr(os, "geteuid"):
        if about.st_uid != os.geteuid():
            return f"it belongs to user {about.st_uid}, not to {os.geteuid()}"
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write to it (chmod go-w {folder})"
    return ""


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


@cache
def made_by() -> str:
    """What the package is made of: its version, and place, size and time of each file that decides what it generates.

    Python trusts the same of a file for its byte code. With NumPy, whose results constants are folded by.
    """
    root = sys.modules[__name__.partition(".")[0]]
    lines = [str(getattr(root, "__version__", "")), sys.version, version_of("numpy")]
    for name in ("compiler", "backends", "reference"):
        for folder in import_module(f"{root.__name__}.{name}").__path__:
            lines += sorted(_files_of_code(folder))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _files_of_code(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith(".py"):
                about = item.stat()
                yield f"{item.path} {about.st_size} {about.st_mtime_ns}"
            elif "." not in item.name and item.name != "__pycache__" and item.is_dir():
                yield from _files_of_code(item.path)


def version_of(module: str) -> str:
    """The version that a loaded module gives of itself."""
    return str(getattr(sys.modules.get(module), "__version__", ""))


# ---- which cache this process uses --------------------------------------------------------------------------


def default_folder() -> Path:
    """Where the cache is if nobody says otherwise. Raises RuntimeError if the user has no home."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "stackgrad" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stackgrad"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "stackgrad"


class _Choice:
    """What the program chose: whether there is a cache, and where. The environment has the last word."""

    def __init__(self) -> None:
        self.enabled = True
        self.folder = ""
        self.known: dict[tuple[str, int], DiskCache] = {}


_CHOICE = _Choice()


def choose(enabled: bool = True, folder: str = "") -> None:
    """Use the cache from here on or not, and this folder in place of the default one."""
    _CHOICE.enabled, _CHOICE.folder = enabled, folder


def active() -> DiskCache | None:
    """The cache of this process; None if it is turned off, by `choose` or by STACKGRAD_CACHE=0."""
    if not _CHOICE.enabled or os.environ.get("STACKGRAD_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return None
    return chosen()


def chosen() -> DiskCache | None:
    """The cache that would be used if it is not turned off; None if there is no place for one."""
    folder = os.environ.get("STACKGRAD_CACHE_DIR") or _CHOICE.folder
    limit = _limit()
    if (folder, limit) not in _CHOICE.known:
        try:
            place = Path(folder).expanduser() if folder else default_folder()
        except RuntimeError:  # no home
            return None
        _CHOICE.known[folder, limit] = DiskCache(place.absolute(), limit)
    return _CHOICE.known[folder, limit]


def _limit() -> int:
    try:
        return int(os.environ["STACKGRAD_CACHE_LIMIT"])
    except (KeyError, ValueError):
        return LIMIT
