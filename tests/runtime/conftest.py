"""Start each test of the runtime with a fresh runtime on the reference, in double precision."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import stackgrad as sg

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

from runtime_kernels import Program  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_runtime() -> Iterator[None]:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    yield
    sg.reset()


@pytest.fixture
def p() -> Program:
    return Program()
