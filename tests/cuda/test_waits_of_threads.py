"""Two threads and one device: whoever looks at memory while another thread waits for the device waits as well."""
from __future__ import annotations

import threading
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

    def slow(*args: object) -> None:
        """The first thread stands in the driver; meanwhile another one settles."""
        monkeypatch.setattr(device.driver, name, real)
        before = device.counters.waits
        second = threading.Thread(target=lambda: (device.settle(), seen.append(device.counters.waits - before)))
        second.start()
        second.join(10)
        real(*args)

    device.wait()
    device.launched()
    monkeypatch.setattr(device.driver, name, slow)
    WAYS[way](device)
    assert seen == [1]
    before = device.counters.waits
    device.settle()
    assert device.counters.waits == before, "nothing is in flight any more"
