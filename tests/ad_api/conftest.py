"""Run each test of the `sg.ad` API on the reference and on the CPU, under a fresh runtime in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import stackgrad as sg

collect_ignore = [] if find_spec("torch") else ["test_torch.py"]
"""torch is an optional library; JAX comes with the harness."""


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch=request.param, default_fp=sg.f64, random_seed=11)
    yield request.param
    sg.reset()
