"""Give each test of the disk cache a folder of its own, with the cache switched on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.backends import disk_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the path of the cache folder that the runtime uses, which does not exist yet."""
    place = tmp_path / "cache"
    monkeypatch.setenv("STACKGRAD_CACHE", "1")
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(place))
    yield place
    sg.reset()
    disk_cache.choose_cache()
