"""Two threads and one device: whoever looks at memory while another thread waits for the device waits as well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from stackgrad.backends.cuda.device import CudaDevice
from stackgrad.harness.testing.emulated_cuda.backend import emulated_cuda

WAYS: dict[str, Callable[[CudaDevice], None]] = {
    "wait": lambda device: device.wait(),
    "read": lambda device: device.read(0, 0, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_second_thread_waits_too(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = emulated_cuda("cuda-emulated").device
    name = "wait_all" if way == "wait" else "copy_out"
    real, seen = getattr(device.driver, name), []

    second = threading.Thread(target=lambda: (device.settle(), seen.append(device.counters.waits)))

    def slow(*args: object) -> None:
        """The first thread stands in the driver; meanwhile another one settles."""
        monkeypatch.setattr(device.driver, name, real)
        waits = device.counters.waits
        second.start()
        while second.is_alive() and device.counters.waits == waits:
            time.sleep(0.01)  # until it waits: where kernels have printed, behind the first thread
        real(*args)

    device.wait()
    device.launched()
    monkeypatch.setattr(device.driver, name, slow)
    before = device.counters.waits
    WAYS[way](device)
    second.join()
    assert seen == [before + (2 if way == "wait" else 1)]
    before = device.counters.waits
    device.settle()
    assert device.counters.waits == before, "nothing is in flight any more"


@pytest.mark.parametrize("way", WAYS)
def test_what_another_thread_drops_meanwhile_is_kept(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It launches and drops when the driver has ended the wait, and before the first thread goes on."""
    device = emulated_cuda("cuda-emulated").device
    name, gone = "wait_all" if way == "wait" else "copy_out", list[str]()
    real = getattr(device.driver, name)

    def late(*args: object) -> None:
        real(*args)
        monkeypatch.setattr(device.driver, name, real)
        device.launched()
        device.drop(lambda: gone.append("late"))

    device.wait()
    device.launched()
    device.drop(lambda: (gone.append("early"), device.drop(lambda: gone.append("of early"))))
    monkeypatch.setattr(device.driver, name, late)
    WAYS[way](device)
    assert gone == ["early"]
    device.wait()
    assert sorted(gone) == ["early", "late", "of early"]


def test_what_is_dropped_goes_at_once_where_nothing_is_in_flight() -> None:
    device, gone = emulated_cuda("cuda-emulated").device, list[str]()
    device.wait()
    device.drop(lambda: (gone.append("one"), device.drop(lambda: gone.append("another"))))
    device.tidy()
    assert gone == ["one", "another"]
