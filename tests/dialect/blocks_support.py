"""Executors and NumPy counterparts for tests of blocks of iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.cuda.backend import CudaBackend
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.testing.emulated_cuda.fibers import AVAILABLE

EXTENTS = (0, 1, 2, 3, 31, 64, 65, 200)
"""Empty, less than a subgroup, a whole block, and blocks with a rest."""


@pytest.fixture(params=["reference", "cpu", "cuda", "vulkan"])
def arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An executor, started with f64 as the default; CUDA is emulated, with threads in blocks and warps."""
    if request.param == "cuda":
        if not AVAILABLE:
            pytest.skip("no fibers on this system")
        monkeypatch.setitem(registry._instances, "cuda", CudaBackend(EmulatedDriver(blocks=True)))
    elif not registry.probe_all()[request.param].available:
        pytest.skip(f"no {request.param} here")
    sg.init(arch=request.param, default_fp=sg.f64)
    return request.param


def parts(x: np.ndarray, size: int, width: int = 0) -> list[np.ndarray]:
    """The blocks of an array, each cut into groups of `width` elements."""
    found = [x[k : k + size] for k in range(0, len(x), size)]
    return [b[k : k + width] for b in found for k in range(0, len(b), width)] if width else found


def spread(groups: list[np.ndarray], result: Callable[[np.ndarray], float]) -> np.ndarray:
    """Each group's result, once for each of its elements."""
    return np.concatenate([np.full(len(g), result(g)) for g in groups] or [np.empty(0)])


def whole(n: int, low: int = 0, high: int = 10) -> np.ndarray:
    return np.random.default_rng(n).integers(low, high, n).astype(float)


def launched_twice(kernel: Callable[[], None], *arrays: sg.Field) -> list[np.ndarray]:
    """The contents after a launch, which a second launch must give again."""
    kernel()
    first = [a.to_numpy() for a in arrays]
    for a in arrays:
        a.fill(0)
    kernel()
    assert all(np.array_equal(a.to_numpy(), b) for a, b in zip(arrays, first))
    return first


def filled(values: np.ndarray, dtype: sg.types.ScalarType = sg.f64, needs_grad: bool = False) -> sg.Field:
    made = sg.field(dtype, max(len(values), 1), needs_grad=needs_grad)
    made.from_numpy(np.resize(values, max(len(values), 1)).astype(dtype.dtype))
    return made
