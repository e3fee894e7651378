"""Launches through an instantiated graph, on the emulated driver: what is launched and with what is as without one."""
from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import left, runtime
from recorded_support import forward, gradient, memory_of, near
from stackgrad.backends.cuda import instances
from stackgrad.backends.cuda.backend import CudaBackend
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.backends.cuda.replay import PATIENCE
from stackgrad.harness.emulated_cuda.driver import EmulatedDriver


@contextmanager
def eager(patience: int = 3, **options: Any) -> Iterator[tuple[CudaBackend, EmulatedDriver]]:
    """A runtime in which few launches in a row are enough for a graph."""
    with runtime(**options) as (backend, driver):
        backend.device.patience = patience
        yield backend, driver


def adding(a: sg.Field) -> sg.Kernel:
    @sg.kernel
    def add(v: sg.f32):
        for i in a:
            a[i] += v

    return add


def test_a_graph_is_made_when_launches_go_on_and_launches_the_same() -> None:
    with runtime() as (_, driver):
        x = sg.field(sg.f32, 300)
        add = adding(x)
        for _ in range(PATIENCE - 1):
            add(1.0)
        assert driver.counts["instantiate"] == 0
        for _ in range(50):
            add(1.0)
        assert driver.counts["instantiate"] == 1
        assert 45 <= driver.counts["launch instance"] <= 50  # the first launches are made from Python, on another block
        assert x[299] == PATIENCE + 49
        assert set(driver.launches) == {("add_task_0", 3, 128)} and len(driver.launches) == PATIENCE + 49


def test_arguments_change_from_launch_to_launch() -> None:
    with eager() as (_, driver):
        x = sg.field(sg.f32, 5)
        add = adding(x)
        for k in range(40):
            add(float(k))
        assert x.to_numpy().tolist() == [sum(range(40))] * 5
        assert driver.counts["launch instance"] > 30


def test_sizes_change_and_none_is_launched_for_none() -> None:
    with eager() as (_, driver):
        arrays = [sg.ndarray(sg.f32, size) for size in (5, 700, 1, 0, 260)]

        @sg.kernel
        def put(a: sg.types.ndarray(dtype=sg.f32, ndim=1), v: sg.f32):
            for i in range(a.shape[0]):
                a[i] = v * (i + 1)

        for k in range(60):
            put(arrays[k % 5], float(k))
        assert [blocks for _, blocks, _ in driver.launches[-4:]] == [1, 6, 1, 3]
        assert driver.counts["launch instance"] > 30
        for k, a in zip((55, 56, 57, 58, 59), arrays, strict=True):
            np.testing.assert_array_equal(a.to_numpy(), k * np.arange(1.0, a.shape[0] + 1.0))


def accumulated(x: sg.Field, y: sg.Field) -> sg.Kernel:
    """Two tasks that share a local of the kernel, which each launch finds zero."""

    @sg.kernel
    def accumulate():
        s = 0.0
        for i in x:
            s += x[i]
        for i in y:
            y[i] = s

    return accumulate


def test_what_a_launch_finds_zero_is_cleared_each_time_on_each_stream() -> None:
    with eager() as (backend, driver):
        x, y = sg.field(sg.f32, 40), sg.field(sg.f32, 3)
        x.fill(0.5)
        kernel = accumulated(x, y)
        for _ in range(12):
            kernel()
            assert y[2] == 20.0
        other = sg.create_stream()
        for _ in range(12):
            with sg.cuda.stream(other):
                kernel()
            kernel()
        sg.sync()
        assert y[0] == 20.0
        assert driver.counts["launch instance"] > 12
        with sg.cuda.stream(other):
            for _ in range(300):
                kernel()
        assert driver.counts["instantiate"] <= 4


def test_the_next_graph_of_a_launch_takes_longer_to_come() -> None:
    with eager() as (_, driver):
        x, y, n = sg.field(sg.f32, 40), sg.field(sg.f32, 40), sg.field(sg.i32, ())

        @sg.kernel
        def some(m: sg.i32, k: sg.i32):
            for i in range(m):
                x[i] += 1.0
            for i in range(k):
                y[i] += 1.0

        n[None] = 1
        for k in range(400):
            some(40 * (k // 4 % 2), 40)
        assert driver.counts["instantiate"] <= 4
        assert x.to_numpy().tolist() == [200.0] * 40 and y.to_numpy().tolist() == [400.0] * 40


def test_the_heap_grows_between_launches() -> None:
    with eager(precise=True) as (_, driver):
        x, y = (sg.field(sg.f64, 70, needs_grad=True) for _ in range(2))
        trips = sg.field(sg.i32, ())

        @sg.kernel
        def steps():
            for i in x:
                v = x[i]
                for _ in range(trips[None]):
                    v = sg.sin(v) * 0.9 + 0.1
                y[i] = v

        x.from_numpy(np.linspace(0.1, 2.0, 70))
        for count in (2, 2, 2, 2, 2, 2, 40, 40, 40, 40, 40, 200, 200, 3, 3, 3):
            trips[None] = count
            y.grad.fill(1.0)
            x.grad.fill(0.0)
            before = memory_of(x=x, y=y, trips=trips)
            steps()
            steps.grad()
            near(gradient(steps.ir(), before), "x.grad", x.grad.to_numpy())
            near(forward(steps.ir(), before), "y", y.to_numpy())
        assert driver.counts["launch instance"] > 12


def test_arrays_of_the_host_are_copied_for_each_launch() -> None:
    with eager() as (_, driver):
        @sg.kernel
        def twice(a: sg.types.ndarray(dtype=sg.f32, ndim=1)):
            for i in range(a.shape[0]):
                a[i] *= 2.0

        arrays = [np.ones(size, np.float32) for size in (3, 200)]
        for _ in range(10):
            for a in arrays:
                twice(a)
        assert [a.tolist() for a in arrays] == [[1024.0] * 3, [1024.0] * 200]
        assert driver.counts["launch instance"] > 10


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


def refusing(call: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise DriverError(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", call)

    return refuse


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


def test_errors_of_the_device_stop_later_launches() -> None:
    with eager(debug=True) as (backend, driver):
        from stackgrad.backends.cuda import executable

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
        monkeypatch.setattr(instances, "MOST", 2)
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


def test_kernels_of_more_entries_than_a_word_has_bits() -> None:
    with eager() as (_, driver):
        x = sg.field(sg.f32, 4)
        lines = "\n".join(f"    for i in x:\n        x[i] += {k}.0" for k in range(70))
        names: dict[str, Any] = {"sg": sg, "x": x}
        import linecache

        text = f"@sg.kernel\ndef many():\n{lines}\n"
        linecache.cache["<many>"] = (len(text), None, text.splitlines(keepends=True), "<many>")
        exec(compile(text, "<many>", "exec"), names)
        for _ in range(6):
            names["many"]()
        assert x[0] == 6 * sum(range(70))
        assert driver.counts["launch instance"] == 0
