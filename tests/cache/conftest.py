"""Tests of the cache on disk: each has a folder of its own, and the cache is on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.backends import disk_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the cache that the runtime uses; it is not there yet."""
    place = tmp_path / "cache"
    monkeypatch.setenv("STACKGRAD_CACHE", "1")
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(place))
    yield place
    sg.reset()
    disk_cache.choose_cache()
