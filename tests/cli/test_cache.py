"""`stackgrad cache`: shows the folder of compiled kernels, says why it is not used, and clears it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends import disk_cache
from stackgrad.backends.disk_cache import DiskCache, entry_key
from stackgrad.cli.cache import size


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("STACKGRAD_CACHE", "1")
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache.choose_cache()  # as in a process of its own, where no program has turned it off
    return DiskCache(tmp_path / "cache")


def test_no_entries(command: Any, cache: DiskCache) -> None:
    found = command("cache")
    assert found.status == 0 and found.err == ""
    lines = [(line[:10].strip(), line[10:]) for line in found.out.splitlines()]
    assert lines == [
        ("folder", str(cache.folder)),
        ("entries", "0"),
        ("size", "0 B of at most 256.0 MiB"),
        ("state", "in use"),
        ("set by", "STACKGRAD_CACHE_DIR"),
    ]
    assert not cache.folder.exists()


def test_entries_of_a_program(command: Any, cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu)
    x = sg.field(sg.f32, shape=4)

    @sg.kernel
    def fill() -> None:
        for i in x:
            x[i] = 1.0

    fill()
    sg.reset()
    count, total = len(cache.entries()), sum(entry.bytes for entry in cache.entries())
    assert count >= 2
    monkeypatch.setenv("STACKGRAD_CACHE_LIMIT", str(3 << 20))
    found = command("cache").out
    assert f"entries   {count}\n" in found and f"{size(total)} of at most 3.0 MiB" in found
    assert "last used " in found and "seconds ago" in found and "STACKGRAD_CACHE_DIR, STACKGRAD_CACHE_LIMIT" in found


def test_ages(command: Any, cache: DiskCache) -> None:
    for name, age in (("a", 5 * 86400), ("b", 7200)):
        cache.put(entry_key(name), b"content")
        when = time.time() - age
        os.utime(cache.folder / f"{entry_key(name).hex()}.entry", (when, when))
    assert "last used 2 hours ago, the first to go 5 days ago" in command("cache").out


def test_clear(command: Any, cache: DiskCache) -> None:
    cache.put(entry_key("a"), b"content")
    found = command("cache", "--clear")
    assert (found.status, found.out) == (0, f"{cache.folder}: 1 entries removed\n")
    assert cache.entries() == []


def test_why_it_is_not_used(command: Any, cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(entry_key("a"), b"content")
    cache.folder.chmod(0o777)
    assert "not used: others may write to it" in command("cache").out
    cache.folder.chmod(0o700)
    monkeypatch.setenv("STACKGRAD_CACHE", "0")
    assert "not used: STACKGRAD_CACHE turns it off" in command("cache").out


@pytest.mark.expensive
def test_random_programs_are_not_kept(command: Any, cache: DiskCache, tmp_path: Path) -> None:
    found = command("fuzz", "--cases", "1", "--seed", "3", "--backends", "cpu", "--corpus", str(tmp_path / "corpus"))
    assert found.status == 0
    assert not cache.folder.exists()


@pytest.mark.parametrize("count, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")])
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
