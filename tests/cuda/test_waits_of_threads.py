"""Two threads and one device: whoever looks at memory while another thread waits for the device waits as well."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from stackgrad.backends.cuda.device import Device
from stackgrad.harness.emulated_cuda.backend import emulated

WAYS: dict[str, Callable[[Device], None]] = {
    "wait": lambda device: device.wait(),
    "read": lambda device: device.read(0, 0, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_second_thread_waits_too(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = emulated("cuda-emulated").device
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
