"""Runs every test of the dialect on the reference and on the CPU, with f64 as the default real type."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
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


@pytest.fixture
def outside(arch: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Define fields `x`, `loss`, `act`, `pair`, `y` and a view `part` as globals of the test's module."""
    x, act = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
    x.from_numpy(np.array([0.3, 0.4, 0.5]))
    act.from_numpy(np.array([3.0, 4.0, 5.0]))
    made = {
        "x": x,
        "act": act,
        "y": sg.field(sg.f64, 3),
        "loss": sg.field(sg.f64, (), needs_grad=True),
        "pair": sg.Vector.field(2, sg.f64, shape=3, needs_grad=True),
        "part": sg.BufferView(act, 1, 2),
    }
    for name, value in made.items():
        monkeypatch.setattr(request.module, name, value, raising=False)
