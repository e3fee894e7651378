"""Each test of host data starts with a fresh runtime, in double precision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg


@pytest.fixture(autouse=True)
def fresh_runtime() -> Iterator[None]:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    yield
    sg.reset()
