"""Test the cache folder: the cache returns only complete entries of its own user and key; others cause one warning."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from stackgrad.backends import disk_cache
from stackgrad.backends.disk_cache import CacheWarning, DiskCache, entry_key
from stackgrad.backends.folders import Folder

KEY, OTHER = entry_key("a"), entry_key("b")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "deep" / "cache")


def the_file(cache: DiskCache) -> Path:
    (entry,) = cache.entries()
    return entry.path


def test_what_was_put_is_found(cache: DiskCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, b"content")
    assert (cache.get(KEY), cache.get(OTHER)) == (b"content", None)
    cache.put(KEY, b"")
    assert DiskCache(cache.folder).get(KEY) == b""


def test_keys_tell_their_parts_apart() -> None:
    found = [entry_key("ab", "c"), entry_key("a", "bc"), entry_key("abc"), entry_key("abc", ""), entry_key("", "abc")]
    assert len({*found}) == len(found) and {len(k) for k in found} == {32}
    assert entry_key("a", b"b") == entry_key(b"a", "b")


def test_folder_and_entries_are_private(cache: DiskCache) -> None:
    before = os.umask(0)
    try:
        cache.put(KEY, b"content")
    finally:
        os.umask(before)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert the_file(cache).stat().st_mode & 0o777 == 0o600


# ---- entries that cannot be used ----------------------------------------------------------------------------


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "head cut off": lambda data: data[:40],
    "end cut off": lambda data: data[:-1],
    "something appended": lambda data: data + b"x",
    "another format": lambda data: data.replace(b"cache 1", b"cache 2"),
    "another program": lambda data: b"\x7fELF" + data,
    "a bit of the magic": flip(3),
    "a bit of the key": flip(20),
    "a bit of the checksum": flip(60),
    "a bit of the size": flip(84),
    "a bit of the content": flip(-3),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_none_and_warns_once(cache: DiskCache, damage: str) -> None:
    cache.put(KEY, b"content of some length")
    file = the_file(cache)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.warns(CacheWarning, match="damaged, or of another version.*STACKGRAD_CACHE=0") as caught:
        assert cache.get(KEY) is None
        assert cache.get(KEY) is None
    assert len(caught) == 1
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"


def test_an_entry_under_the_name_of_another_is_none(cache: DiskCache) -> None:
    cache.put(KEY, b"content")
    file = the_file(cache)
    file.rename(file.with_name(f"{OTHER.hex()}.entry"))
    with pytest.warns(CacheWarning):
        assert cache.get(OTHER) is None


def test_an_entry_that_cannot_be_read(cache: DiskCache) -> None:
    cache.put(KEY, b"content")
    file = the_file(cache)
    file.unlink()
    file.mkdir()
    with pytest.warns(CacheWarning, match="cannot be used: it is a folder") as caught:
        assert cache.get(KEY) is None
        cache.put(KEY, b"content")
        assert cache.get(KEY) is None
    assert len(caught) == 1


def test_a_full_disk(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Folder, name: str, data: bytes) -> None:
        folder.create(name, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cache.put(KEY, b"content")
    monkeypatch.setattr(DiskCache, "_write", staticmethod(write))
    with pytest.warns(CacheWarning, match="cannot be written .* No space left") as caught:
        cache.put(KEY, b"another")
        cache.put(OTHER, b"another")
    assert len(caught) == 1
    assert (cache.get(KEY), cache.get(OTHER)) == (b"content", None)
    assert [file.suffix for file in cache.folder.iterdir()] == [".entry"]  # nothing is left half done


# ---- folders that cannot be used ----------------------------------------------------------------------------


def test_a_folder_that_others_may_write_to(cache: DiskCache) -> None:
    cache.put(KEY, b"content")
    for mode in (0o777, 0o702, 0o720):
        cache.folder.chmod(mode)
        with pytest.warns(CacheWarning, match="others may write to it .chmod go-w") as caught:
            again = DiskCache(cache.folder)
            assert again.get(KEY) is None
            again.put(OTHER, b"x")
        assert len(caught) == 1
    cache.folder.chmod(0o755)
    assert DiskCache(cache.folder).get(KEY) == b"content"
    assert len(cache.entries()) == 1


def test_a_folder_of_somebody_else(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, b"content")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(CacheWarning, match=r"belongs to user \d+, not to 12345") as caught:
        again = DiskCache(cache.folder)
        assert again.get(KEY) is None
        again.put(OTHER, b"x")
    assert len(caught) == 1 and len(list(cache.folder.iterdir())) == 1


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.warns(CacheWarning) as caught:
            cache = DiskCache(place)
            cache.put(KEY, b"content")
            cache.put(OTHER, b"content")
            assert cache.get(KEY) is None
        assert len(caught) == 1


# ---- size ---------------------------------------------------------------------------------------------------


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=100_000)
    keys = [entry_key(str(k)) for k in range(12)]
    for age, name in enumerate(keys[:9]):
        cache.put(name, bytes(10_000))
        path = cache.folder / f"{name.hex()}.entry"
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    assert cache.get(keys[0]) is not None  # used: it is now the youngest
    cache.put(keys[9], bytes(10_000))
    left = [k for k, name in enumerate(keys) if cache.get(name) is not None]
    assert left == [0, 4, 5, 6, 7, 8, 9]
    assert sum(entry.bytes for entry in cache.entries()) <= 75_000


def test_eviction_removes_what_a_dead_process_left(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=1000)
    cache.put(KEY, b"")
    old, new = cache.folder / "1.2.3.part", cache.folder / "4.5.6.part"
    for part in (old, new):
        part.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    cache.put(OTHER, bytes(2000))
    assert not old.exists() and new.exists()


def test_clear(cache: DiskCache) -> None:
    assert cache.clear() == 0
    cache.put(KEY, b"content")
    cache.put(OTHER, b"content")
    (cache.folder / "1.2.3.part").write_bytes(b"x")
    (cache.folder / "notes.txt").write_text("of the user")
    assert cache.clear() == 2
    assert [file.name for file in cache.folder.iterdir()] == ["notes.txt"]
    assert cache.get(KEY) is None


# ---- many processes -----------------------------------------------------------------------------------------

_WORKER = """
import random, sys, warnings
from pathlib import Path
from stackgrad.backends.disk_cache import DiskCache, entry_key
warnings.simplefilter("error")
cache, seed = DiskCache(Path(sys.argv[1]), limit=400_000), int(sys.argv[2])
pick, hits = random.Random(seed), 0
for step in range(400):
    name = pick.randrange(40)
    content = bytes([name]) * (1000 + 500 * name)
    found = cache.get(entry_key(str(name)))
    assert found is None or found == content, (name, len(found))
    hits += found is not None
    if found is None or step % 3 == 0:
        cache.put(entry_key(str(name)), content)
print(hits)
"""


@pytest.mark.expensive
def test_eight_processes_share_a_folder(tmp_path: Path) -> None:
    """They write, replace and evict the same entries; each reads whole entries alone, and nobody is warned."""
    command = [sys.executable, "-c", _WORKER, str(tmp_path / "cache")]
    running = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in range(8)
    ]
    for process in running:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert int(output) > 100
    assert not list((tmp_path / "cache").glob("*.part"))


# ---- which cache --------------------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("STACKGRAD_CACHE", "STACKGRAD_CACHE_DIR", "STACKGRAD_CACHE_LIMIT", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(disk_cache, "_CHOICE", disk_cache._CacheSettings())
    return monkeypatch


def place() -> Path:
    found = disk_cache.active_cache()
    assert found is not None
    return found.folder


def test_default_places(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("HOME", str(tmp_path))
    bare.setattr(sys, "platform", "linux")
    assert place() == tmp_path / ".cache" / "stackgrad"
    bare.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert disk_cache.default_folder() == tmp_path / ".cache" / "stackgrad"
    bare.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.default_folder() == tmp_path / "xdg" / "stackgrad"
    bare.setattr(sys, "platform", "darwin")
    assert disk_cache.default_folder() == tmp_path / "Library" / "Caches" / "stackgrad"
    bare.setattr(sys, "platform", "win32")
    bare.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert disk_cache.default_folder() == tmp_path / "local" / "stackgrad" / "cache"


def test_the_program_chooses_and_the_environment_has_the_last_word(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk_cache.choose_cache(True, str(tmp_path / "chosen"))
    assert place() == tmp_path / "chosen"
    bare.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "named"))
    assert place() == tmp_path / "named"
    for word in ("0", "off", "False", "no"):
        bare.setenv("STACKGRAD_CACHE", word)
        assert disk_cache.active_cache() is None
    bare.setenv("STACKGRAD_CACHE", "1")
    disk_cache.choose_cache(False)
    assert disk_cache.active_cache() is None


def test_no_home_no_cache(bare: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    bare.setattr(sys, "platform", "linux")
    bare.setattr(Path, "home", staticmethod(home))
    assert disk_cache.active_cache() is None


def test_the_limit_is_read_from_the_environment(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("STACKGRAD_CACHE_DIR", str(tmp_path))
    for text, limit in (("1234", 1234), ("many", disk_cache.LIMIT)):
        bare.setenv("STACKGRAD_CACHE_LIMIT", text)
        found = disk_cache.active_cache()
        assert found is not None and found.limit == limit


def test_nothing_is_warned_of_where_nothing_is_wrong(cache: DiskCache) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get(KEY) is None and cache.entries() == [] and cache.clear() == 0
        cache.put(KEY, b"content")
        assert cache.get(KEY) == b"content"
