"""Fixtures of the tests of what strangers may do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """The file that no attack may leave behind."""
    yield tmp_path / "canary"
    assert not (tmp_path / "canary").exists(), "code of a stranger ran"
