"""Makes the modules of this folder importable; every shape starts its own runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import stackgrad as sg

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sg.reset()
