"""Graphs of launches where the driver refuses, or others share it; and what becomes of them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import stackgrad as sg
from on_emulator import left
from replaying import accumulated, adding, eager, refusing
from stackgrad.backends.cuda import launch_graphs
from stackgrad.backends.cuda.driver import DriverError


def test_what_is_recorded_is_recorded_of_single_launches() -> None:
    with eager() as (_, driver):
        x = sg.field(sg.f32, 8)
        add = adding(x)
        for _ in range(8):
            add(1.0)
        instances = driver.counts["launch instance"]
        graph = sg.graph(lambda: add(1.0))
        graph()
        graph()
        assert (graph.recordings, x[7]) == (1, 11.0)
        assert driver.counts["launch instance"] == instances  # the first run has a stream of its own, too
        add(1.0)
        assert driver.counts["launch instance"] == instances + 1


def test_a_recording_that_cannot_begin_leaves_graphs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    with eager() as (_, driver):
        add = adding(sg.field(sg.f32, 8))
        add(1.0)
        monkeypatch.setattr(driver, "begin_capture", refusing("cuStreamBeginCapture"))
        with pytest.raises(DriverError):
            sg.graph(lambda: add(1.0))
        monkeypatch.undo()
        for _ in range(12):
            add(1.0)
        assert driver.counts["launch instance"] > 5


def test_a_stream_that_another_library_records() -> None:
    """An instance cannot be launched there; single launches can."""
    with eager() as (backend, driver):
        x = sg.field(sg.f32, 8)
        add = adding(x)
        with sg.cuda.stream(sg.create_stream()):
            for _ in range(8):
                add(1.0)
            sg.sync()
            assert driver.counts["launch instance"] > 3
            driver.begin_capture(driver.stream)
            add(1.0)
            recorded = driver.end_capture(driver.stream)
            driver.launch_graph(recorded)
            driver.launch_graph(recorded)
            add(1.0)
            assert x[0] == 11.0


@pytest.mark.parametrize("call", ["instantiate", "set_node", "launch_graph"])
def test_where_the_driver_refuses_launches_go_on_without(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with eager() as (_, driver):
        x = sg.field(sg.f32, 8)
        add = adding(x)
        monkeypatch.setattr(driver, call, refusing(call))
        for k in range(30):
            add(float(k))
        assert x[3] == sum(range(30))
        assert driver.counts["launch instance"] <= 2  # the first of each block has nothing to set


def test_a_thread_that_the_driver_does_not_know_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch of the graph is refused once, and made again."""
    with eager() as (_, driver):
        x = sg.field(sg.f32, 8)
        add = adding(x)
        for _ in range(8):
            add(1.0)
        known, launch_graph = [False], driver.launch_graph

        def unknown(graph: int, stream: int | None = None) -> None:
            if not known[0]:
                raise DriverError(201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context", "cuGraphLaunch")
            launch_graph(graph, stream)

        monkeypatch.setattr(driver, "launch_graph", unknown)
        monkeypatch.setattr(driver, "attach", lambda: known.__setitem__(0, True))
        before = driver.counts["launch instance"]
        for _ in range(4):
            add(1.0)
        assert known[0] and x[0] == 12.0 and driver.counts["launch instance"] == before + 4


def test_in_a_context_of_another_library_there_is_no_graph() -> None:
    """Its default stream is another one, in which a graph would be behind nothing of ours."""
    with eager() as (_, driver):
        x = sg.field(sg.f32, 8)
        add = adding(x)
        for _ in range(8):
            add(1.0)
        driver.current, before = 0x2000, driver.counts["launch instance"]
        add(1.0)
        assert driver.counts["launch instance"] == before
        driver.attach()
        add(1.0)
        assert driver.counts["launch instance"] == before + 1
        assert x[0] == 10.0


def test_a_graph_is_made_of_what_the_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is made the block may have been bound to other memory."""
    with eager() as (backend, driver):
        a, b = sg.ndarray(sg.f32, (4,)), sg.ndarray(sg.f32, (4,))

        @sg.kernel
        def add(x: sg.types.ndarray(dtype=sg.f32, ndim=1)):
            for i in range(x.shape[0]):
                x[i] += 1.0

        make = launch_graphs.LaunchGraphs.make

        def between(self: launch_graphs.LaunchGraphs, block: Any) -> None:
            at = block.layout.arrays["x"].address_at
            own, other = block.word(at), b.memory.__array_interface__["data"][0]
            block.put(at, other if own != other else own)
            make(self, block)
            block.put(at, own)

        monkeypatch.setattr(launch_graphs.LaunchGraphs, "make", between)
        for _ in range(20):
            add(a)
        assert driver.counts["launch instance"] > 3
        assert a.to_numpy().tolist() == [20.0] * 4 and b.to_numpy().tolist() == [0.0] * 4


def test_errors_of_the_device_stop_later_launches() -> None:
    with eager(debug=True) as (backend, driver):
        from stackgrad.backends.device import executable

        x = sg.field(sg.f32, 10)

        @sg.kernel
        def put(n: sg.i32):
            for i in range(n):
                x[i] += 1.0

        waits, executable.DEBUG_WAITS = executable.DEBUG_WAITS, False
        try:
            for _ in range(10):
                put(10)
            put(12)
            put(10)
            with pytest.raises(sg.OutOfBounds, match="10 elements"):
                sg.sync()
            put(3)
            assert x[0] == 12.0 and x[9] == 11.0
        finally:
            executable.DEBUG_WAITS = waits


def test_everything_goes_back() -> None:
    with eager() as (backend, driver):

        def use() -> None:
            x, y = sg.field(sg.f32, 40), sg.field(sg.f32, 3)
            kernel = accumulated(x, y)
            for _ in range(12):
                kernel()
            sg.sync()

        use()
        sg.reset()
        gc.collect()
        assert left(backend, driver) == []
        assert driver._instances == {} and backend.device.graphs == 0


def test_there_are_never_more_graphs_than_a_device_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with eager() as (backend, driver):
        monkeypatch.setattr(launch_graphs, "MOST", 2)
        fields = [sg.field(sg.f32, 8) for _ in range(4)]
        kernels = [adding(x) for x in fields]
        for k in range(40):
            for add in kernels:
                add(float(k))
        assert [x[7] for x in fields] == [sum(range(40))] * 4
        assert len(driver._instances) == backend.device.graphs == driver.counts["instantiate"] == 2


def test_what_launched_on_arrays_that_died_goes_with_them() -> None:
    with eager() as (backend, driver):

        @sg.kernel
        def add(a: sg.template(), v: sg.f32):
            for i in a:
                a[i] += v

        for _ in range(12):
            x = sg.field(sg.f32, 4)
            for _ in range(12):
                add(x, 1.0)
            assert x[3] == 12.0
            del x
            gc.collect()
        assert driver.counts["instantiate"] >= 12
        sg.sync()
        assert backend.device.graphs == len(driver._instances) <= 3


def test_streams_do_not_wait_for_each_other() -> None:
    """The driver runs launches of one graph one after another, so each stream has one of its own or none."""
    with eager() as (_, driver):
        seen: dict[int, set[int]] = {}
        launch_graph = driver.launch_graph

        def watched(graph: int, stream: int | None = None) -> None:
            seen.setdefault(graph, set()).add(driver.stream if stream is None else stream)
            launch_graph(graph, stream)

        driver.launch_graph = watched  # type: ignore[method-assign]
        arrays, streams = [sg.ndarray(sg.f32, 4) for _ in range(2)], [sg.create_stream() for _ in range(2)]

        @sg.kernel
        def put(a: sg.types.ndarray(dtype=sg.f32, ndim=1), v: sg.f32):
            for i in range(a.shape[0]):
                a[i] = v

        for k in range(200):
            for a, stream in zip(arrays, streams, strict=True):
                with sg.cuda.stream(stream):
                    put(a, float(k))
        sg.sync()
        assert [a.to_numpy()[3] for a in arrays] == [199.0, 199.0]
        for k in range(40):
            with sg.cuda.stream(streams[0]):
                put(arrays[0], float(k))
        assert seen and all(len(one) == 1 for one in seen.values())
