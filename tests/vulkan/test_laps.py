"""A profile tells tasks apart by time stamps of the device."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.vulkan import task_times
from stackgrad.backends.vulkan.backend import VulkanBackend


@pytest.fixture
def runtime(vulkan: VulkanBackend) -> Iterator[None]:
    if not task_times.valid_bits(vulkan.device):
        pytest.skip(f"{vulkan.device.card.name} takes no time stamps")
    sg.init(arch=sg.vulkan)
    yield
    sg.reset()


@sg.kernel
def uneven(x: sg.types.ndarray(), empty: sg.types.ndarray(), n: sg.i32) -> None:  # type: ignore[valid-type]
    for i in x:
        for k in range(n):
            x[i] += sg.sin(x[i] + k)
    for i in empty:
        empty[i] += 1.0
    for i in x:
        x[i] += 1.0


@pytest.mark.parametrize("foreign", [False, True])
def test_seconds_of_each_task(runtime: None, foreign: bool) -> None:
    """The one that does more takes longer, and all of them no more than the launch; also beside other launches."""
    x = np.zeros(256) if foreign else sg.ndarray(sg.f64, (256,))
    empty = np.zeros(0) if foreign else sg.ndarray(sg.f64, (0,))
    for _ in range(5):
        uneven(x, empty, 1)
    sg.sync()
    begin = time.perf_counter()
    with sg.profile() as profile:
        for _ in range(10):
            uneven(x, empty, 2000)
    spent = time.perf_counter() - begin
    (kernel,) = profile.kernels
    long, none, short = (task.seconds for task in kernel.tasks)
    assert long is not None and none is not None and short is not None
    assert long > short > 0 and long > none and long + none + short <= spent
    content = np.array(x) if foreign else x.to_numpy()
    uneven(x, empty, 0)
    np.testing.assert_array_equal(x if foreign else x.to_numpy(), content + 1.0)


def test_a_launch_that_submits_nothing(runtime: None) -> None:
    empty = sg.ndarray(sg.f64, (0,))
    with sg.profile() as profile:
        for _ in range(3):
            uneven(empty, empty, 5)
    assert [task.seconds for task in profile.kernels[0].tasks] == [0.0, 0.0, 0.0]


def test_a_device_without_time_stamps(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.backends.vulkan import executable

    monkeypatch.setattr(executable, "valid_bits", lambda device: 0)
    x, empty = sg.ndarray(sg.f64, (3,)), sg.ndarray(sg.f64, (1,))
    with sg.profile() as profile:
        uneven(x, empty, 1)
    assert [task.seconds for task in profile.kernels[0].tasks] == [None, None, None]
    assert empty.to_numpy().tolist() == [1.0]
