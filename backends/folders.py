"""Read, write and remove files in folders that are held open, without ever following a link.

A user who may write to a folder can put a FIFO, a device, a link or a huge file where a small file is expected. Names
are therefore resolved in the open folder, a file is looked at before it is opened and again once it is, opening never
waits, and nothing longer than a limit is read. Windows lacks the flags; on Windows the checks look at paths.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_BINARY, _CLOEXEC = getattr(os, "O_BINARY", 0), getattr(os, "O_CLOEXEC", 0)
_NEVER_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOEXEC | _BINARY
_AS_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | _CLOEXEC
_HELD = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY") and hasattr(os, "O_NOFOLLOW")
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_NUMBERS = itertools.count()


class UnsafePathError(OSError):
    """Represent the error that a path must not be used as a file or folder; `strerror` has the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPERM, reason)


def kind_of(mode: int) -> str:
    """Return a phrase for the kind of a file, such as `a folder` or `a link`, or "" for a regular file."""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no file")


class Folder:
    """Represent a folder held open, whose files are accessed by name; the constructor raises OSError on failure.

    With `follow`, the path itself may be a link, because the user named it.

    Attributes:
        path: path of the folder
        about: status of the folder
    """

    def __init__(self, path: Path, follow: bool = False) -> None:
        self.path = path
        self.about = path.stat() if follow else path.lstat()
        if not stat.S_ISDIR(self.about.st_mode):
            raise UnsafePathError(f"it is {kind_of(self.about.st_mode) or 'a file'}, not a folder")
        self._held: int | None = None
        if _HELD:
            self._held = os.open(path, _AS_FOLDER & ~(os.O_NOFOLLOW if follow else 0))
            self.about = os.fstat(self._held)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor that keeps the folder open; the folder and its files stay on disk."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _name(self, name: str) -> str | Path:
        """Return the argument by which `os` finds a file of this folder; raise UnsafePathError for an unsafe name."""
        if not name or name in (".", "..") or os.path.basename(name) != name:
            raise UnsafePathError(f"{name!r} is not the name of a file in a folder")
        return name if _HELD else self.path / name

    def look(self, name: str) -> os.stat_result:
        """Return the status of a file (as `os.stat` does), without following a link."""
        return os.stat(self._name(name), dir_fd=self._held, follow_symlinks=False)

    def names(self) -> list[str]:
        """Return the names of all files and folders in the folder, sorted."""
        return sorted(os.listdir(self.path if self._held is None else self._held))

    def folder(self, name: str) -> Folder:
        """Open a folder inside this folder. Raise UnsafePathError if it is a link or not a folder."""
        about = self.look(name)
        if not stat.S_ISDIR(about.st_mode):
            raise UnsafePathError(f"it is {kind_of(about.st_mode) or 'a file'}, not a folder")
        made = object.__new__(Folder)
        made.path, made.about = self.path / name, about
        made._held = os.open(name, _AS_FOLDER, dir_fd=self._held) if _HELD else None
        return made

    def make(self, name: str) -> None:
        """Create a subfolder with this name in the folder."""
        os.mkdir(self._name(name), 0o777, dir_fd=self._held)

    def open(self, name: str, limit: int, own: bool = False) -> int:
        """Open a regular file for reading and return its descriptor.

        Args:
            name: name of the file
            limit: greatest number of bytes
            own: True if the file must belong to this user and nobody else may write to it

        Raises:
            UnsafePathError: for anything else that lies there
        """
        _check_file(self.look(name), limit, own)
        descriptor = os.open(self._name(name), os.O_RDONLY | _NEVER_WAIT, dir_fd=self._held)
        try:
            # It may be another file by now.
            _check_file(os.fstat(descriptor), limit, own)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, limit: int, own: bool = False) -> bytes:
        """Return the contents of a regular file; if `own`, it must be this user's and writable by nobody else.

        Raise UnsafePathError if this does not hold, or if the file has more than `limit` bytes.
        """
        with os.fdopen(self.open(name, limit, own), "rb") as file:
            found = file.read(limit + 1)
        # The file may have grown since it was opened.
        if len(found) > limit:
            raise UnsafePathError(_too_long(limit))
        return found

    def create(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Create a new file with the given data, by default readable for this user only.

        Raises:
            FileExistsError: if the name exists, also for a link that leads nowhere
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NEVER_WAIT
        with os.fdopen(os.open(self._name(name), flags, mode, dir_fd=self._held), "wb") as file:
            file.write(data)

    def replace(self, old: str, new: str) -> None:
        """Move the file `old` to the name `new`, and replace the file or link that has this name."""
        held = self._held
        os.replace(self._name(old), self._name(new), src_dir_fd=held, dst_dir_fd=held)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; a link with this name is replaced, not followed."""
        part = f".{os.getpid()}.{threading.get_ident()}.{next(_NUMBERS)}.part"
        try:
            self.create(part, text.encode(), 0o666)
            self.replace(part, name)
        except BaseException:
            self.remove(part)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, a link (but not its target) or a folder with its content, if the name exists."""
        try:
            if stat.S_ISDIR(self.look(name).st_mode):
                shutil.rmtree(self._name(name), dir_fd=self._held)
            else:
                os.unlink(self._name(name), dir_fd=self._held)
        except FileNotFoundError:
            return


def _too_long(limit: int) -> str:
    """Return the message that a file is longer than `limit` bytes."""
    return f"it is longer than {limit} bytes"


def _check_file(about: os.stat_result, limit: int, own: bool) -> None:
    """Raise UnsafePathError if a file is not regular, is too long, or (if `own`) can be changed by other users."""
    kind = kind_of(about.st_mode)
    if kind:
        raise UnsafePathError(f"it is {kind}, not a file")
    if about.st_size > limit:
        raise UnsafePathError(_too_long(limit))
    reason = foreign(about) if own else ""
    if reason:
        raise UnsafePathError(reason)


def foreign(about: os.stat_result) -> str:
    """Return the reason why other users own or may write to a file or folder, or an empty string if there is none.

    The string is also empty on systems without such owners.
    """
    if hasattr(os, "geteuid"):
        if about.st_uid != os.geteuid():
            return f"it belongs to user {about.st_uid}, not to {os.geteuid()}"
        if about.st_mode & _OTHERS:
            return "others may write to it"
    return ""


def open_parent(path: Path) -> str:
    """Return the first folder on the way to a path in which other users can rename files, or "" if there is none.

    Links on the way are looked up one by one, as the system does, because each of them also lies in a folder.
    """
    if not hasattr(os, "geteuid"):
        return ""
    todo, at, links = list(path.absolute().parent.parts[1:])[::-1], Path("/"), 0
    while True:
        about = at.lstat()
        if stat.S_ISLNK(about.st_mode) and links < 40:
            links += 1
            target = at.parent / os.readlink(at)
            todo += list(target.parts[1:])[::-1]
            at = Path("/")
            continue
        if _is_open(about):
            return str(at)
        if not todo:
            return ""
        part = todo.pop()
        at = at.parent if part == ".." else at / part


def _is_open(about: os.stat_result) -> bool:
    """Return True if other users may rename files in the folder with this status."""
    # Many users are alone in the group to which their folders belong.
    by_group = about.st_mode & stat.S_IWGRP and about.st_gid not in (0, os.getegid())
    return bool((about.st_mode & stat.S_IWOTH or by_group) and not about.st_mode & stat.S_ISVTX)


def make_private(path: Path) -> None:
    """Create a folder and its missing parents, accessible to this user only. Raise OSError on failure."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for place in reversed(missing):
        # Another process may have been faster.
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)


def write_beside(path: Path, text: str) -> None:
    """Write a file in a folder that may be somebody else's; a link in its place is replaced, not followed."""
    with Folder(path.parent, follow=True) as folder:
        folder.write(path.name, text)
