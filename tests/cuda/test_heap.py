"""The adstack heap of a device: growth, streams, refusals; nothing is leaked, or used after it was given back."""

from __future__ import annotations

import pytest
from counted_memory import Memory
from stackgrad.backends.device.heap import GRAIN, DeviceHeap
from stackgrad.backends.heap import HeapRefusal
from stackgrad.backends.words import BUSY


def test_the_first_request_is_met_exactly_and_growth_is_by_half() -> None:
    memory = Memory()
    heap = DeviceHeap(memory)
    assert heap.reserve({"real": 100 * GRAIN, "flag": 0})
    assert heap.report()["real"] == {"current": 100 * GRAIN, "peak": 100 * GRAIN}
    assert not heap.reserve({"real": 100 * GRAIN}) and memory.waited == []
    assert heap.reserve({"real": 100 * GRAIN + 1})
    assert heap.report()["real"]["current"] == 150 * GRAIN and sum(memory.held.values()) == 150 * GRAIN


def test_growth_waits_before_it_gives_back() -> None:
    memory = Memory()
    heap = DeviceHeap(memory)
    heap.reserve({"real": GRAIN})
    before = heap.epoch
    memory.busy.add(0)
    heap.reserve({"real": 2 * GRAIN, "integer": GRAIN})
    assert memory.waited == [0] and heap.waits == 1 and heap.epoch != before
    heap.reserve({"flag": GRAIN})
    assert heap.waits == 1, "a slab that was not there is in use by nobody"


def test_each_stream_has_slabs_of_its_own() -> None:
    memory = Memory()
    heap = DeviceHeap(memory)
    heap.reserve({"real": GRAIN})
    first, epoch = heap.base("real"), heap.epoch
    heap.use(7)
    assert heap.epoch != epoch
    heap.reserve({"real": GRAIN})
    assert heap.base("real") != first and heap.report()["real"]["current"] == 2 * GRAIN
    heap.use(0)
    assert (heap.base("real"), heap.epoch) == (first, epoch), "what stood ready for the stream is valid again"
    heap.forget(7)
    assert heap.report()["real"]["current"] == GRAIN and len(memory.held) == 1


def test_a_request_over_the_memory_changes_nothing() -> None:
    memory = Memory(100 * GRAIN)
    heap = DeviceHeap(memory)
    heap.reserve({"real": 10 * GRAIN})
    base, epoch = heap.base("real"), heap.epoch
    text = f"{90 * GRAIN} bytes of real slots, {11 * GRAIN} bytes of flag slots, and the device has {90 * GRAIN} of"
    with pytest.raises(HeapRefusal, match=f"{text} {100 * GRAIN} bytes left"):
        heap.reserve({"real": 90 * GRAIN, "integer": 0, "flag": 11 * GRAIN})
    assert (heap.base("real"), heap.epoch) == (base, epoch)
    assert heap.reserve({"real": 90 * GRAIN, "flag": 10 * GRAIN}), "exactly what there is can be had"


def test_a_device_that_refuses_what_it_promised_is_a_refusal_with_numbers() -> None:
    memory = Memory(100 * GRAIN)
    heap = DeviceHeap(memory)
    heap.reserve({"real": 10 * GRAIN})
    memory.hidden = 60 * GRAIN
    with pytest.raises(HeapRefusal, match="the device refuses: out of memory"):
        heap.reserve({"real": 50 * GRAIN})
    assert not memory.held and heap.report()["real"] == {"current": 0, "peak": 10 * GRAIN}
    assert heap.reserve({"real": 40 * GRAIN})


def test_reset_gives_everything_back() -> None:
    memory = Memory()
    heap = DeviceHeap(memory)
    for stream in (0, 1, 2):
        heap.use(stream)
        heap.reserve({"real": GRAIN, "integer": 3 * GRAIN})
        assert heap.base("flag", 16) not in (0, heap.base("real"))
    heap.reset()
    assert not memory.held and heap.report()["integer"] == {"current": 0, "peak": 0}


def test_a_launch_beside_a_native_one_has_a_heap_of_its_own() -> None:
    memory = Memory()
    heap = DeviceHeap(memory)
    heap.reserve({"real": GRAIN})
    heap.words[BUSY] = 1
    with heap.claimed() as other:
        assert other is not heap
        other.reserve({"real": GRAIN})
        memory.busy.add(0)
    assert len(memory.held) == 1 and memory.waited, "it waits for its launch, and gives its memory back"
    heap.words[BUSY] = 0
    with heap.claimed() as mine:
        assert mine is heap and heap.words[BUSY] == 1
    assert heap.words[BUSY] == 0
