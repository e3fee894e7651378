"""Lists of passing iterations on Vulkan, by threads that decide one gate or several: gradients are exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.vulkan.backend import VulkanBackend

MOST = 9_000
SIZES = (1, 63, 64, 65, 127, 2048, 2049, 4097, 8200, MOST)
"""On lavapipe a grid has 2,048 threads: from 2,049 iterations on a thread decides 2, 4 or 8 at a time."""


@pytest.fixture(params=["", "subgroups", "buffer_addresses", "int64"])
def device(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[None]:
    """Without a feature."""
    registry.put("vulkan", VulkanBackend(masked=(request.param,) if request.param else ()))
    try:
        sg.init(arch=sg.vulkan, default_fp=sg.f32)
        yield
    finally:
        sg.reset()
        registry.put("vulkan", vulkan)


@pytest.mark.rotating
@pytest.mark.parametrize("axes", [1, 2])
def test_every_number_of_iterations(device: None, axes: int) -> None:
    """One step squares x where an iteration passes. One that is listed twice adds its slope twice."""
    gate = sg.field(sg.i32, MOST)
    x, total = sg.field(sg.f32, MOST, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)
    start = np.arange(MOST, dtype=np.float32)
    x.from_numpy(start)

    @sg.kernel
    def line(n: sg.i32) -> None:
        for i in range(n):
            if gate[i] > 0:
                v = x[i]
                for _ in range(gate[i]):
                    v = v * v
                total[None] += v

    @sg.kernel
    def plane(n: sg.i32) -> None:
        for i, j in sg.ndrange((0, n), (0, 1)):
            if gate[i + j] > 0:
                v = x[i]
                for _ in range(gate[i]):
                    v = v * v
                total[None] += v

    kernel, draw = line if axes == 1 else plane, np.random.default_rng(3)
    for size in SIZES:
        for rate in (0.0, 0.01, 0.05, 0.5):
            chosen = np.zeros(MOST, np.int32)
            chosen[draw.permutation(size)[: round(rate * size)]] = 1
            chosen[size:] = 1
            gate.from_numpy(chosen)
            x.grad.fill(0.0)
            total.grad.fill(1.0)
            kernel.grad(size)
            want = np.where((chosen > 0) & (np.arange(MOST) < size), 2 * start, 0)
            np.testing.assert_array_equal(x.grad.to_numpy(), want)
            assert sg.adstack_report().tasks[0].passing == chosen[:size].sum()
