"""Each test of kernel arguments runs on the reference and on cpu."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that choose the executor themselves run once."""
    both = "_on_" not in metafunc.function.__name__.rpartition("places")[2]
    metafunc.parametrize("arch", ["reference", "cpu"] if both else ["reference"], indirect=True)


@pytest.fixture(autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()
