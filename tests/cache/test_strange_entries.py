"""Test files that other users put into the cache folder, or in place of it: each causes a miss and one warning.

The cache neither reads them nor waits for them, and `stackgrad cache --clear` removes them and nothing else.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import disk_cache
from stackgrad.backends.disk_cache import CacheWarning, DiskCache, entry_key
from stackgrad.backends.folders import Folder, open_parent

KEY, OTHER = entry_key("a"), entry_key("b")
STRANGER = 54321
HAS_OWNERS = hasattr(os, "geteuid")
IS_ROOT = HAS_OWNERS and os.geteuid() == 0


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    """Return a cache with an entry under OTHER, and with a folder of the user that does not belong to the cache."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "precious.txt").write_text("of the user")
    made = DiskCache(tmp_path / "cache")
    made.put(OTHER, b"content")
    return made


def valid(cache: DiskCache) -> bytes:
    """Return the bytes of an entry under KEY, as the cache writes it."""
    cache.put(KEY, b"native code")
    path = cache.folder / f"{KEY.hex()}.entry"
    found = path.read_bytes()
    path.unlink()
    return found


def link(to: str) -> Callable[[Path, bytes], None]:
    return lambda path, data: path.symlink_to(to)


def link_to_the_same_content(path: Path, data: bytes) -> None:
    (path.parent.parent / "planted").write_bytes(data)
    path.symlink_to(path.parent.parent / "planted")


def a_socket(path: Path, data: bytes) -> None:
    short = path.parent / "s"  # a path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            made.bind("s")
        finally:
            os.chdir(here)
    short.rename(path)


def sparse(size: int) -> Callable[[Path, bytes], None]:
    def make(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data)
            file.truncate(size)

    return make


def writable(mode: int) -> Callable[[Path, bytes], None]:
    def make(path: Path, data: bytes) -> None:
        path.write_bytes(data)
        path.chmod(mode)

    return make


def of_a_stranger(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.chown(path, STRANGER, STRANGER)


def a_folder(path: Path, data: bytes) -> None:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "link").symlink_to(path.parent.parent / "own")
    (path / "deep" / "file").write_text("x")


STRANGE: dict[str, Callable[[Path, bytes], None]] = {
    "pipe": lambda path, data: os.mkfifo(path),
    "socket": a_socket,
    "folder": a_folder,
    "link to an endless device": link("/dev/zero"),
    "link to a terminal": link("/dev/tty"),
    "link to the same content": link_to_the_same_content,
    "link to a folder": link("../own"),
    "link to itself": lambda path, data: path.symlink_to(path.name),
    "link to nowhere": link("nowhere"),
    "sparse": sparse(1 << 40),
    "sparse within the limit": sparse(255 << 20),
    "writable by the group": writable(0o620),
    "writable by all": writable(0o602),
}
if IS_ROOT:  # nobody else can give a file away or make a device
    STRANGE["of a stranger"] = of_a_stranger
    STRANGE["device"] = lambda path, data: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
if not HAS_OWNERS:
    STRANGE = {"folder": a_folder}


@pytest.mark.parametrize("kind", STRANGE)
def test_it_is_a_miss_and_one_warning(cache: DiskCache, kind: str) -> None:
    """The warning names a command that removes it, and the next entry of this name takes its place where it can."""
    data = valid(cache)
    path = cache.folder / f"{KEY.hex()}.entry"
    STRANGE[kind](path, data)
    with pytest.warns(CacheWarning) as caught:
        assert cache.get(KEY) is None
        assert cache.get(KEY) is None
    assert len(caught) == 1 and path.name in str(caught[0].message)
    assert f"STACKGRAD_CACHE_DIR={cache.folder} stackgrad cache --clear" in str(caught[0].message)
    assert cache.get(OTHER) == b"content"
    if kind != "folder":
        cache.put(KEY, b"new")
        assert cache.get(KEY) == b"new"
    assert (cache.folder.parent / "own" / "precious.txt").read_text() == "of the user"


@pytest.mark.parametrize("kind", STRANGE)
def test_clear_removes_it_and_nothing_else(cache: DiskCache, kind: str) -> None:
    data = valid(cache)
    STRANGE[kind](cache.folder / f"{KEY.hex()}.entry", data)
    (cache.folder / "1.2.3.part").mkdir()
    outside = {p for p in cache.folder.parent.rglob("*") if cache.folder not in p.parents}
    (cache.folder / "notes.txt").write_text("of the user")
    (cache.folder / "mine.entry").write_text("of the user")
    assert cache.clear() == 2
    assert sorted(p.name for p in cache.folder.iterdir()) == ["mine.entry", "notes.txt"]
    assert {p for p in cache.folder.parent.rglob("*") if cache.folder not in p.parents} == outside
    assert (cache.folder.parent / "own" / "precious.txt").read_text() == "of the user"


@pytest.mark.parametrize("kind", [k for k in STRANGE if k != "sparse within the limit"])
def test_it_is_no_entry_to_those_that_count(cache: DiskCache, kind: str) -> None:
    """Neither the size nor the eviction of what is used longest ago is led astray by it."""
    data = valid(cache)
    STRANGE[kind](cache.folder / f"{KEY.hex()}.entry", data)
    assert [entry.path.name for entry in cache.entries()] == [f"{OTHER.hex()}.entry"]
    assert [entry.path.name for entry in cache.strange()] == [f"{KEY.hex()}.entry"]
    again = DiskCache(cache.folder)
    again.put(entry_key("c"), b"more")
    assert len(again.entries()) == 2


def test_the_command_that_the_warning_names_clears_the_folder(cache: DiskCache) -> None:
    os.mkfifo(cache.folder / f"{KEY.hex()}.entry")
    with pytest.warns(CacheWarning) as caught:
        cache.get(KEY)
    found = re.search(r"`(.*?) stackgrad (cache --clear)`", str(caught[0].message))
    assert found is not None
    variable, _, place = found[1].partition("=")
    ended = subprocess.run(
        [sys.executable, "-m", "stackgrad", *found[2].split()],
        capture_output=True,
        text=True,
        env={**os.environ, variable: shlex.split(place)[0]},
    )
    assert (ended.returncode, ended.stdout) == (0, f"{cache.folder}: 2 entries removed\n"), ended.stderr
    assert not list(cache.folder.iterdir())


def test_a_program_meets_strange_entries(folder: Path) -> None:
    """Everything that was kept of it is exchanged: it is compiled again, with one warning, and is right."""
    assert doubled() == [2.0, 4.0, 6.0]
    kept = DiskCache(folder).entries()
    assert len(kept) >= 2
    for number, entry in enumerate(kept):
        data = entry.path.read_bytes()
        entry.path.unlink()
        list(STRANGE.values())[number % len(STRANGE)](entry.path, data)
    disk_cache._CHOICE.known.clear()  # as in the next process
    with pytest.warns(CacheWarning) as caught:
        assert doubled() == [2.0, 4.0, 6.0]
    assert len(caught) == 1


def doubled() -> list[float]:
    """Return the results of a kernel on 1, 2, 3 in a new runtime."""
    sg.init(arch=sg.cpu)
    x = sg.field(sg.f32, shape=3)
    x.from_numpy(np.array([1, 2, 3], np.float32))

    @sg.kernel
    def double() -> None:
        for i in x:
            x[i] *= 2.0

    double()
    found: list[float] = x.to_numpy().tolist()
    sg.reset()
    return found


# ---- the folder itself ----------------------------------------------------------------------------------------


def is_refused(place: Path, reason: str) -> None:
    """Assert that the cache does not use a folder, and issues one warning with this reason."""
    with pytest.warns(CacheWarning, match=re.escape(reason)) as caught:
        again = DiskCache(place)
        assert again.get(OTHER) is None
        again.put(KEY, b"x")
        assert again.get(KEY) is None
    assert len(caught) == 1
    assert reason in again.distrust()


def test_a_link_in_place_of_the_folder(cache: DiskCache, tmp_path: Path) -> None:
    """It is not followed, not even to clear what it leads to."""
    place = tmp_path / "link"
    place.symlink_to(cache.folder)
    is_refused(place, "it is a link, not a folder")
    with pytest.raises(OSError, match="it is a link"):
        DiskCache(place).clear()
    assert place.is_symlink() and cache.get(OTHER) == b"content"


def test_a_pipe_in_place_of_the_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    is_refused(tmp_path / "pipe", "it is a pipe, not a folder")


@pytest.mark.parametrize("mode, refused", [(0o777, True), (0o757, True), (0o1777, False), (0o755, False)])
def test_a_folder_above_it_that_others_may_write_to(cache: DiskCache, tmp_path: Path, mode: int, refused: bool) -> None:
    """They could put another folder in its place, unless what is in it belongs to its owners (the sticky bit)."""
    above = tmp_path / "above"
    (above / "between").mkdir(parents=True)
    made = DiskCache(above / "between" / "cache")
    made.put(OTHER, b"content")
    above.chmod(mode)
    if refused:
        is_refused(made.folder, f"others may put another folder in its place (chmod go-w {above})")
    else:
        assert DiskCache(made.folder).get(OTHER) == b"content"


def test_a_link_above_it_that_lies_where_others_may_write(cache: DiskCache, tmp_path: Path) -> None:
    shared = tmp_path / "public"
    shared.mkdir()
    (shared / "link").symlink_to(tmp_path)
    assert DiskCache(shared / "link" / "cache").get(OTHER) == b"content"
    shared.chmod(0o777)
    is_refused(shared / "link" / "cache", "others may put another folder in its place")
    (tmp_path / "way").symlink_to("public/link")
    assert open_parent(tmp_path / "way" / "cache") == str(shared)
    (shared / "round").symlink_to("round")
    assert open_parent(shared / "round" / "cache") != ""


def test_folders_above_it_are_made_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        DiskCache(tmp_path / "a" / "b" / "cache").put(KEY, b"x")
    finally:
        os.umask(before)
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "a", tmp_path / "a" / "b")} == {0o700}


def test_a_folder_of_a_stranger(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    if IS_ROOT:
        os.chown(cache.folder, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    is_refused(cache.folder, "it belongs to user ")
    with pytest.raises(OSError, match="it belongs to user"):
        cache.clear()
    assert len(list(cache.folder.iterdir())) == 1


def test_a_folder_that_is_exchanged_while_the_program_runs(cache: DiskCache) -> None:
    assert cache.get(OTHER) == b"content"
    real = cache.folder.rename(cache.folder.with_name("real"))
    cache.folder.symlink_to(real)
    with pytest.warns(CacheWarning, match="it is a link"):
        assert cache.get(OTHER) is None


# ---- where the system has less ---------------------------------------------------------------------------------


def test_without_open_folders_paths_are_looked_at(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: no folder can be held open, no flag refuses a link."""
    monkeypatch.setattr("stackgrad.backends.folders._HELD", False)
    (cache.folder / f"{KEY.hex()}.entry").symlink_to(f"{OTHER.hex()}.entry")
    with pytest.warns(CacheWarning, match="it is a link") as caught:
        assert cache.get(KEY) is None
    assert len(caught) == 1 and cache.get(OTHER) == b"content"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"new")
        assert cache.get(KEY) == b"new"
    (cache.folder / f"{entry_key('c').hex()}.entry").mkdir()
    assert cache.clear() == 3 and not list(cache.folder.iterdir())


def test_names_stay_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "inside").mkdir()
    with Folder(tmp_path / "inside") as folder:
        for name in ("../secret", "..", ".", "", "a/b", str(tmp_path / "secret")):
            for use in (lambda n: folder.read(n, 100), folder.remove, folder.folder, lambda n: folder.create(n, b"")):
                with pytest.raises(OSError):
                    use(name)
    assert (tmp_path / "secret").read_text() == "x"
