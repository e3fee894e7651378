"""Large arrays come to the host through memory that it reads fast, where what the device writes is not of that kind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.vulkan import readback
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.readback import Readback


@pytest.fixture
def slow(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A device whose memory the host reads slowly; gives sizes of copies. Small parts, so that there are several."""
    sg.init(arch=sg.vulkan)
    sizes: list[int] = []
    record = readback._Copies.record
    monkeypatch.setattr(readback, "PART", 1 << 16)
    monkeypatch.setattr(Readback, "pays", lambda self, array: array.nbytes >= readback.LEAST)
    monkeypatch.setattr(readback._Copies, "record", lambda *args: (sizes.append(args[-1]), record(*args))[1])
    vulkan.opened.access._readback.__dict__.pop("_target", None)
    yield sizes
    vulkan.opened.access._readback.__dict__.pop("_target", None)
    sg.reset()


@sg.kernel
def scale(x: sg.types.ndarray(), c: sg.f64) -> None:  # type: ignore[valid-type]
    for i in x:
        x[i] = x[i] * c + 1.0


def test_content_behind_launches(slow: list[int]) -> None:
    """Whole parts and a rest, from the begin of a region and from within one; more copies than slots."""
    for count in (8192, 20_001, 150_000):
        x, start = sg.ndarray(sg.f64, (count,)), np.linspace(0, 1, count)
        x.from_numpy(start)
        for k in range(5):
            scale(x, float(k))
            start = start * k + 1.0
        slow.clear()
        np.testing.assert_array_equal(x.to_numpy(), start)
        assert sum(slow) == 8 * count and max(slow) == 1 << 16


def test_small_arrays_are_read_in_place(slow: list[int]) -> None:
    x = sg.ndarray(sg.f64, (100,))
    scale(x, 0.0)
    assert x.to_numpy().tolist() == [1.0] * 100 and not slow


def test_readers_of_several_threads(slow: list[int]) -> None:
    arrays = [sg.ndarray(sg.f64, (30_000,)) for _ in range(3)]
    for k, x in enumerate(arrays):
        x.from_numpy(np.full(30_000, float(k)))
    found: list[set[float]] = [set() for _ in arrays]

    def work(number: int) -> None:
        for _ in range(6):
            scale(arrays[number], 1.0)
            found[number] |= set(arrays[number].to_numpy().tolist())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{float(k + step) for step in range(1, 7)} for k in range(3)]


def test_where_it_pays(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of memory that is cached, as here; of other one if there is some that is, for large arrays of our own."""
    sg.init(arch=sg.vulkan)
    reader, device = Readback(vulkan.opened.queue), vulkan.device
    x = sg.ndarray(sg.f64, (20_000,))
    own, kind = x.buffer, vulkan.opened.queue.arena.find(x.buffer.ctypes.data)
    assert kind is not None
    for cached, pays in (([kind.buffer.kind], False), ([kind.buffer.kind + 1], True), ([], False)):
        monkeypatch.setitem(device.__dict__, "cached_types", cached)
        assert reader.pays(own) is pays
    monkeypatch.setitem(device.__dict__, "cached_types", [kind.buffer.kind + 1])
    assert not reader.pays(own[:100]) and not reader.pays(own[::2]) and not reader.pays(np.zeros(20_000))
    sg.reset()
