"""The works that are timed on devices are right on Vulkan: each compares its gradients with closed forms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.harness.tools.bench.device_works import DEVICE_WORKS, SHRINK


@pytest.fixture
def runtime(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On few elements: a CPU that stands for a device takes long for more."""
    monkeypatch.setenv(SHRINK, "2048")
    sg.init(arch=sg.vulkan)
    yield
    sg.reset()


@pytest.mark.rotating
@pytest.mark.parametrize("work", ["device_launch", "device_sweep", "device_gated", "device_grid", "device_loss"])
def test_a_work(runtime: None, work: str) -> None:
    columns = DEVICE_WORKS[work](sg)
    for timed in columns.values():
        (timed.figure or sg.sync)()
    assert {"forward", "grad"} <= set(columns) or work == "device_launch"
