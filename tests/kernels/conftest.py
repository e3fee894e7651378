"""Each test of kernel arguments runs on the reference and on cpu."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg


@pytest.fixture(autouse=True, params=["reference", "cpu"])
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()
