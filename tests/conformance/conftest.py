"""Runs every program on the reference and on the CPU, with f64 as the default real type."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import stackgrad as sg

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture(params=["reference", "cpu"])
def arch(request: pytest.FixtureRequest) -> str:
    """Start the runtime on one executor and return its name."""
    sg.init(arch=request.param, default_fp=sg.f64)
    return request.param
