"""A subset of tests for `compute-sanitizer`, with each kind of memory access and code once, on small grids.

compute-sanitizer --tool memcheck python -m pytest tests/cuda/sanitized -m cuda -n 0
compute-sanitizer --tool initcheck python -m pytest tests/cuda/sanitized -m cuda -n 0
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.harness.testing.emulated_cuda.backend import NAMES, emulated_cuda

DEVICES = [*NAMES, pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(autouse=True, params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start the runtime on the GPU, or on an emulated one, which asserts that the host waited before it read."""
    backend = emulated_cuda(request.param) if request.param in NAMES else None
    if backend is not None:
        monkeypatch.setitem(registry._instances, "cuda", backend)
    before = backend.emulator.unawaited if backend else 0
    sg.init(arch=sg.cuda, default_fp=sg.f32)
    yield request.param
    sg.reset()
    if backend is not None:
        assert backend.emulator.unawaited == before, "the host touched memory that a launch was writing"
