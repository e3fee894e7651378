"""Test GPU graphs, which repeat the launches of a function as a whole, and streams as programs name them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import left, runtime
from recorded_support import gradients, memory_of, near

Pair = tuple[sg.Field, sg.Field, sg.Field, sg.Kernel]


def pair() -> tuple[Pair, Callable[[], None]]:
    """Return a forward launch and its gradient, whose adstack depths a field decides, and a function that runs both."""
    x, y = (sg.field(sg.f64, 64, needs_grad=True) for _ in range(2))
    n = sg.field(sg.i32, ())

    @sg.kernel
    def steps():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = v * v + 0.1
            y[i] = v

    @sg.kernel
    def seed():
        for i in y:
            y.grad[i] = 1.0

    def both() -> None:
        steps()
        seed()
        steps.grad()

    x.from_numpy(np.linspace(0.1, 0.9, 64))
    n[None] = 3
    return (x, y, n, steps), both


def check(made: Pair, times: int = 1) -> None:
    """Assert that `times` gradients, added up from 0, are those of the recurrence."""
    x, y, n, steps = made
    v, slope = x.to_numpy(), np.ones(64)
    for _ in range(n[None]):
        slope *= 2 * v
        v = v * v + 0.1
    before = memory_of(x=x, y=y, n=n) | {"x.grad": np.zeros(64)}
    known = gradients(steps.ir(), before, [{"y.grad": np.ones(64)}] * times)
    near(known, "x.grad", x.grad.to_numpy(), times * slope)


def test_a_pair_is_replayed_by_one_launch() -> None:
    with runtime() as (_, driver):
        made, both = pair()
        graph = sg.graph(both)
        check(made)
        launches = len(driver.launches)
        for k in range(2, 7):
            graph()
            check(made, k)
        assert (graph.recordings, graph.replays) == (1, 5)
        assert driver.counts["launch graph"] == 5 and len(driver.launches) == launches


def test_changed_content_is_seen_and_changed_sizes_are_recorded_anew() -> None:
    with runtime() as (_, driver):
        made, both = pair()
        x, _, n, _ = made
        graph = sg.graph(both)
        x.fill(0.3)
        x.grad.fill(0.0)
        graph()
        check(made)
        n[None] = 40
        x.grad.fill(0.0)
        graph()
        check(made)
        x.grad.fill(0.0)
        graph()
        check(made)
        assert (graph.recordings, graph.replays) == (2, 2)


def test_versions_follow_replays() -> None:
    with runtime():
        (_, y, n, _), both = pair()
        graph = sg.graph(both)
        before = y.version, n.version
        graph()
        assert y.version != before[0] and n.version == before[1]


def test_under_a_tape_the_function_runs() -> None:
    with runtime():
        x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

        @sg.kernel
        def total():
            for i in x:
                loss[None] += x[i] * x[i]

        x.from_numpy(np.array([1.0, 2.0, 3.0]))
        graph = sg.graph(total)
        with sg.ad.Tape(loss):
            graph()
        assert x.grad.to_numpy().tolist() == [2, 4, 6] and graph.replays == 0


@sg.kernel
def on_host(a: sg.types.ndarray(dtype=sg.f32, ndim=1)):
    for i in range(a.shape[0]):
        a[i] = 1.0


def test_what_cannot_be_recorded_is_refused() -> None:
    with runtime() as (_, driver):
        x, n = sg.field(sg.f32, 8, needs_grad=True), sg.field(sg.i32, ())
        y = sg.field(sg.f32, 8, needs_grad=True)

        @sg.kernel
        def draws():
            for i in x:
                x[i] = sg.random()

        @sg.kernel
        def more():
            n[None] += 1

        @sg.kernel
        def steps():
            for i in x:
                v = x[i]
                for _ in range(n[None]):
                    v = v * v
                y[i] = v

        def decides() -> None:
            more()
            steps.grad()

        steps()
        host = np.zeros(3, np.float32)
        for function, text in (
            (draws, "random numbers"),
            (lambda: on_host(host), "arrays of the host"),
            (decides, "written inside"),
            (lambda: (steps(), x[0]), "wait for the GPU"),
        ):
            with pytest.raises(sg.Unsupported, match=text):
                sg.graph(function)
            steps()
            sg.sync()


def test_on_a_cpu_a_graph_is_its_function() -> None:
    sg.init(arch=sg.cpu)
    made, both = pair()
    graph = sg.graph(both)
    graph()
    check(made, 2)


def test_streams_by_name() -> None:
    with runtime() as (backend, driver):
        x = sg.field(sg.i32, 16)

        @sg.kernel
        def add():
            for i in x:
                x[i] += 1

        class Foreign:
            def __init__(self, handle: int) -> None:
                self.cuda_stream = handle

        handle = driver.new_stream()
        assert sg.cuda.current_stream == 0
        for stream in (handle, Foreign(handle), sg.create_stream(), None):
            with sg.cuda.stream(stream):
                assert (sg.cuda.current_stream == 0) == (stream is None)
                for _ in range(5):
                    add()
        assert x[0] == 20
        with pytest.raises(sg.ArgumentError, match="is no stream"), sg.cuda.stream("fast"):
            pass
        first, event = sg.create_stream(), sg.create_event()
        add(qd_stream=first)
        event.record(first)
        event.wait()
        add()
        first.synchronize()
        assert x[1] == 22
        first.destroy()
        event.destroy()
    sg.init(arch=sg.cpu)
    with sg.cuda.stream(5):
        assert sg.cuda.current_stream == 0


def test_graphs_give_everything_back() -> None:
    def program() -> None:
        graph = sg.graph(pair()[1])
        graph()

    with runtime() as (backend, driver):
        program()
        sg.reset()
        assert left(backend, driver) == []


def test_constants_that_change_are_recorded_anew() -> None:
    with runtime():
        x, y = (sg.field(sg.f64, 4, needs_grad=True) for _ in range(2))
        factor, weights, scale = 2.0, np.array([1.0]), [lambda: factor]

        @sg.kernel
        def k():
            for i in x:
                y[i] = x[i] * factor * weights[0] + sg.static(scale[0]())

        x.fill(1.0)
        graph = sg.graph(k)
        for _ in range(3):
            graph()
            assert y.to_numpy().tolist() == [4.0] * 4
        assert (graph.recordings, graph.replays) == (1, 3)
        factor = 3.0
        graph()
        assert y.to_numpy().tolist() == [6.0] * 4
        weights[0] = 2.0
        graph()
        assert y.to_numpy().tolist() == [9.0] * 4
        scale[0] = lambda: 0.5
        graph()
        graph()
        assert y.to_numpy().tolist() == [6.5] * 4
        assert (graph.recordings, graph.replays) == (4, 4)
