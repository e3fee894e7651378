"""Store compiled code on disk, so that later processes load it instead of compiling again.

The cache is a folder of the user's own, with one file per entry, named by its key: a hash of all that decides the
content. Invariant: an entry that is returned is, byte for byte, one that this format wrote under this key, in a file of
the user alone; anything else in the folder is neither read nor waited for. An entry appears whole or not at all (it is
written beside its place and moved there), so any number of processes may share the folder. No function raises: a cache
that cannot be used costs time alone, and one warning.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import struct
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..compiler.errors import warn
from .folders import Folder, UnsafePathError, foreign, kind_of, make_private, open_parent

MAGIC = b"stackgrad cache 1\n"
_HEAD = struct.Struct(f"<{len(MAGIC)}s32s32sQ")
_ENTRY, _PART = re.compile(r"[0-9a-f]{64}\.entry"), re.compile(r"\d+\.\d+\.\d+\.part")
"""Names of entries, and of entries that are being written; nothing else in the folder is read or removed."""
LIMIT = 256 << 20
"""Bytes of all entries above which the oldest are removed; the variable STACKGRAD_CACHE_LIMIT replaces it."""
_KEEP = 0.75
"""Share of the limit that is left after entries were removed."""
_STALE = 3600.0
"""Seconds after which an unfinished file belongs to a process that died."""
_LINK_CURE = "remove the link, or name the folder itself in STACKGRAD_CACHE_DIR; or "
_FRESH = 86400.0
"""Seconds in which a use of an entry need not be noted again."""


class CacheWarning(UserWarning):
    """Warn that the cache, or an entry of it, cannot be used; the program is compiled as without the cache."""


class CacheFile(NamedTuple):
    """Represent a file of the cache: its path, size, time of last use, and, if it is no valid entry, the reason."""

    path: Path
    bytes: int
    used: float
    strange: str = ""


def entry_key(*parts: str | bytes) -> bytes:
    """Return the key of a cache entry: a hash of 32 bytes over the given parts."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.digest()


class DiskCache:
    """Store entries in a folder, which is created for this user alone when the first entry is written."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._refused = False
        self._has_safe_parents = False
        self._bytes: int | None = None
        self._warned = False
        self._numbers = itertools.count()

    def get(self, key: bytes) -> bytes | None:
        """Return the data stored under a key, or None if the cache has no valid entry for the key."""
        name = _name(key)
        folder = self._opened()
        if folder is None:
            return None
        with folder:
            try:
                with os.fdopen(folder.open(name, self.limit + _HEAD.size, own=True), "rb") as file:
                    content = _content(file, key)
                    if content is not None:
                        _note_use(file)
            except FileNotFoundError:
                return None
            except OSError as error:
                self._warn_of_entry(name, f"cannot be used: {_reason(error)}")
                return None
        if content is None:
            self._warn_of_entry(name, "is damaged, or of another version: it is not used")
        return content

    def put(self, key: bytes, content: bytes) -> None:
        """Store data under a key as a new entry; warn, instead of raising OSError, if the file cannot be written."""
        folder = self._opened(make=True)
        if folder is None:
            return
        part = f"{os.getpid()}.{threading.get_ident()}.{next(self._numbers)}.part"
        with folder:
            try:
                try:
                    head = _HEAD.pack(MAGIC, key, hashlib.sha256(content).digest(), len(content))
                    self._write(folder, part, head + content)
                    folder.replace(part, _name(key))
                except BaseException:
                    folder.remove(part)
                    raise
                self._count(folder, len(content) + _HEAD.size)
            except OSError as error:
                self._warn(f"an entry cannot be written to {self.folder}: {_reason(error)}", self._clear_cure())

    def entries(self) -> list[CacheFile]:
        """Return all valid entries of the cache as files, the one used longest ago first."""
        return [entry for entry in self._listed() if not entry.strange]

    def strange(self) -> list[CacheFile]:
        """Return the files that have an entry's name but cannot be entries: links, folders, files of other users."""
        return [entry for entry in self._listed() if entry.strange]

    def clear(self) -> int:
        """Remove all entries, and links or folders with the name of an entry; return the number of entries.

        Raise OSError for a folder of somebody else, and if something cannot be removed.
        """
        try:
            folder = Folder(self.folder)
        except FileNotFoundError:
            return 0
        with folder:
            _check_owner(folder)
            found = [name for name in folder.names() if _ENTRY.fullmatch(name) or _PART.fullmatch(name)]
            for name in found:
                folder.remove(name)
        self._bytes = None
        return sum(_ENTRY.fullmatch(name) is not None for name in found)

    def distrust(self) -> str:
        """Return the reason why the cache folder is unsafe to use, or an empty string if it is safe."""
        try:
            with Folder(self.folder) as folder:
                return _distrust(folder) or _distrust_parents(self.folder)
        except FileNotFoundError:
            return _distrust_parents(self.folder)
        except OSError as error:
            return _reason(error)

    # -- files ----------------------------------------------------------------------------------------------

    @staticmethod
    def _write(folder: Folder, name: str, data: bytes) -> None:
        folder.create(name, data)

    def _listed(self) -> list[CacheFile]:
        """Return all files whose name is that of a cache entry, least recently used first."""
        try:
            with Folder(self.folder) as folder:
                return sorted(self._files(folder, _ENTRY), key=lambda entry: entry.used)
        except OSError:
            return []

    def _files(self, folder: Folder, names: re.Pattern[str]) -> Iterator[CacheFile]:
        for name in folder.names():
            if names.fullmatch(name):
                try:
                    about = folder.look(name)
                except OSError:  # another process has removed it
                    continue
                reason = kind_of(about.st_mode) or foreign(about)
                if not reason and about.st_size > self.limit + _HEAD.size:
                    reason = "it is longer than the whole cache may be"
                yield CacheFile(self.folder / name, about.st_size, about.st_mtime, reason)

    def _count(self, folder: Folder, added: int) -> None:
        """Add `added` bytes to the known size of the cache; remove old entries if the size exceeds the limit."""
        if self._bytes is None:
            self._bytes = sum(entry.bytes for entry in self._files(folder, _ENTRY) if not entry.strange)
        else:
            self._bytes += added
        if self._bytes > self.limit:
            self._evict(folder)

    def _evict(self, folder: Folder) -> None:
        entries = [entry for entry in self._files(folder, _ENTRY) if not entry.strange]
        total = sum(entry.bytes for entry in entries)
        for entry in sorted(entries, key=lambda entry: entry.used):
            if total <= self.limit * _KEEP:
                break
            folder.remove(entry.path.name)
            total -= entry.bytes
        self._bytes = total
        for left in self._files(folder, _PART):
            if not left.strange and time.time() - left.used > _STALE:
                folder.remove(left.path.name)

    # -- trust ----------------------------------------------------------------------------------------------

    def _opened(self, make: bool = False) -> Folder | None:
        """Return the open cache folder, or None if it is missing, or if other users own it or can write to it."""
        if self._refused:
            return None
        try:
            if make:
                make_private(self.folder)
            folder = Folder(self.folder)
        except FileNotFoundError:
            return None  # it may be made later
        except OSError as error:
            self._refuse(_reason(error))
            return None
        reason = _distrust(folder)
        if not reason and not self._has_safe_parents:
            reason = _distrust_parents(self.folder)
            self._has_safe_parents = not reason
        if reason:
            folder.close()
            self._refuse(reason)
            return None
        return folder

    def _refuse(self, reason: str) -> None:
        self._refused = True
        is_link = self.folder.is_symlink()
        self._warn(f"{self.folder} is not used: {reason}", _LINK_CURE if is_link else "")

    def _warn_of_entry(self, name: str, text: str) -> None:
        self._warn(f"{self.folder / name} {text}", self._clear_cure())

    def _clear_cure(self) -> str:
        """Return the shell command that clears this cache folder, with an environment variable if necessary."""
        place = "" if _is_the_default(self.folder) else f"STACKGRAD_CACHE_DIR={shlex.quote(str(self.folder))} "
        return f"`{place}stackgrad cache --clear` empties the folder; or "

    def _warn(self, text: str, cure: str = "") -> None:
        if not self._warned:
            self._warned = True
            cure += "set STACKGRAD_CACHE_DIR to another folder, or STACKGRAD_CACHE=0 to do without"
            warn(f"cache of compiled kernels: {text}; {cure}", CacheWarning)


def _name(key: bytes) -> str:
    """Return the name of the file that holds the cache entry with this key."""
    return f"{key.hex()}.entry"


def _note_use(file: BinaryIO) -> None:
    """Set the modification time of an entry's file to now, unless it was set within the last day."""
    try:
        if time.time() - os.fstat(file.fileno()).st_mtime > _FRESH and os.utime in os.supports_fd:
            os.utime(file.fileno())
    except OSError:
        pass


def _content(file: BinaryIO, key: bytes) -> bytes | None:
    """Return the data that a file holds, or None if it is not a cache entry of this format under this key.

    The head says how long the file must be, so only the head is read of a long file that is no entry.
    """
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, own, digest, size = _HEAD.unpack(head)
    if magic != MAGIC or own != key or size != os.fstat(file.fileno()).st_size - _HEAD.size:
        return None
    content = file.read(size + 1)
    return content if len(content) == size and hashlib.sha256(content).digest() == digest else None


def _distrust(folder: Folder) -> str:
    """Return the reason why code from an open folder is unsafe to run, or an empty string if it is safe."""
    reason = foreign(folder.about)
    return f"{reason} (chmod go-w {folder.path})" if reason.startswith("others") else reason


def _distrust_parents(path: Path) -> str:
    """Return the reason why other users could replace the folder at a path, or an empty string if they cannot.

    Missing folders above it are made for the user alone. No exception is raised.
    """
    while not os.path.lexists(path.parent) and path.parent != path:
        path = path.parent
    try:
        found = open_parent(path)
    except OSError as error:
        return _reason(error)
    return f"others may put another folder in its place (chmod go-w {found})" if found else ""


def _check_owner(folder: Folder) -> None:
    reason = foreign(folder.about)
    if reason.startswith("it belongs"):
        raise UnsafePathError(reason)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


@cache
def package_hash() -> str:
    """Return a hash of this package: its version, and path, size and time of each file that affects generated code.

    Python trusts the same for its byte code. NumPy counts, because constants are folded with its results.
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
    """Return the version that a module, if it is loaded, gives in its attribute `__version__`, else ""."""
    return str(getattr(sys.modules.get(module), "__version__", ""))


# ---- which cache this process uses --------------------------------------------------------------------------


def default_folder() -> Path:
    """Return the default folder of the cache. Raise RuntimeError if the user has no home folder."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "stackgrad" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stackgrad"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "stackgrad"


class _CacheSettings:
    """Represent the cache settings of the program, enabled and folder, which environment variables override."""

    def __init__(self) -> None:
        self.enabled = True
        self.folder = ""
        self.known: dict[tuple[str, int], DiskCache] = {}


_CHOICE = _CacheSettings()


def choose_cache(enabled: bool = True, folder: str = "") -> None:
    """Switch the cache on or off for later compilations, and choose its folder ("" for the default)."""
    _CHOICE.enabled, _CHOICE.folder = enabled, folder


def active_cache() -> DiskCache | None:
    """Return the cache of this process, or None if it is turned off, by `choose_cache` or by STACKGRAD_CACHE=0."""
    if not _CHOICE.enabled or os.environ.get("STACKGRAD_CACHE", "1").lower() in ("0", "off", "false", "no"):
        return None
    return chosen_cache()


def chosen_cache() -> DiskCache | None:
    """Return the cache in the configured folder even if it is turned off, or None if no folder can be found."""
    folder = os.environ.get("STACKGRAD_CACHE_DIR") or _CHOICE.folder
    limit = _limit()
    if (folder, limit) not in _CHOICE.known:
        try:
            place = Path(folder).expanduser() if folder else default_folder()
        except RuntimeError:  # no home
            return None
        _CHOICE.known[folder, limit] = DiskCache(place.absolute(), limit)
    return _CHOICE.known[folder, limit]


def _is_the_default(folder: Path) -> bool:
    """Return True if the command line uses this folder as its cache without any option."""
    try:
        return folder == Path(os.environ.get("STACKGRAD_CACHE_DIR") or default_folder()).expanduser().absolute()
    except RuntimeError:  # no home
        return False


def _limit() -> int:
    try:
        return int(os.environ["STACKGRAD_CACHE_LIMIT"])
    except (KeyError, ValueError):
        return LIMIT
