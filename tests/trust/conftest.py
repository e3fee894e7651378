"""Fixtures of the tests of attacks by untrusted files."""

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
    """Return the path of the file that no attack may create."""
    yield tmp_path / "canary"
    assert not (tmp_path / "canary").exists(), "code of a stranger ran"
