"""Streams, events and graphs: what only orders launches changes no result."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def test_streams_and_events() -> None:
    a, b = sg.field(sg.f32, 4), sg.field(sg.f32, 4)

    @sg.kernel
    def produce(value: sg.f32):
        for i in a:
            a[i] = value * i

    @sg.kernel
    def consume() -> sg.f32:
        for i in b:
            b[i] = a[i] + 1
        return b[3]

    first, event = sg.create_stream(), sg.create_event()
    with sg.create_stream() as second:
        produce(10.0, qd_stream=first)
        event.record(qd_stream=first)
        event.wait(qd_stream=second)
        assert consume(qd_stream=second) == 31.0
        second.synchronize()
    event.synchronize()
    produce(value=1.0, qd_stream=None)
    for one in (first, event):
        one.destroy()
        one.destroy()
        assert one.handle == 0
    assert isinstance(first, sg.Stream) and isinstance(event, sg.Event)
    assert a.to_numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(sg.ArgumentError, match="is no stream"):
        produce(1.0, qd_stream=3)


def test_methods_take_streams() -> None:
    @sg.data_oriented
    class Solver:
        def __init__(self):
            self.x = sg.field(sg.i32, 3)

        @sg.kernel
        def step(self, n: sg.i32):
            for i in self.x:
                self.x[i] += n

    s = Solver()
    s.step(2, qd_stream=sg.create_stream())
    assert s.x.to_numpy().tolist() == [2, 2, 2]


def test_parallel_blocks() -> None:
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    y, z = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))

    @sg.kernel
    def k():
        with sg.stream_parallel():
            for i in x:
                y[i] = x[i] ** 2
        with sg.stream_parallel():
            for i in x:
                z[i] = 3.0 * x[i]

    @sg.kernel
    def total():
        for i in x:
            loss[None] += y[i] + z[i]

    with sg.ad.Tape(loss):
        k()
        total()
    assert loss[None] == 14.0 + 18.0
    assert x.grad.to_numpy().tolist() == [5.0, 7.0, 9.0]


def test_kernels_that_are_graphs() -> None:
    x, y = sg.field(sg.i32, 3), sg.field(sg.i32, 3)

    @sg.kernel(graph=True)
    def k(n: sg.i32):
        with sg.graph.parallel_context():
            with sg.graph.parallel():
                for i in x:
                    x[i] = i * n
            with sg.graph.parallel():
                for i in y:
                    y[i] = i + n
        for i in x:
            x[i] += y[i]

    k(10)
    assert x.to_numpy().tolist() == [10, 21, 32]


@pytest.mark.parametrize("kind", ["field", "ndarray", "flat name"])
def test_do_while(kind) -> None:
    """The body runs once at least; what stands around it runs once."""
    counter = sg.field(sg.i32, ()) if kind == "field" else sg.ndarray(sg.i32, ())
    x, runs = sg.field(sg.i32, 4), sg.field(sg.i32, 2)

    if kind == "field":

        @sg.kernel(graph=True)
        def k(n: sg.i32):
            counter[None] = n
            for i in x:
                x[i] = 100
            while sg.graph.do_while(counter):
                for i in x:
                    x[i] += 1
                runs[0] += 1
                counter[None] -= 1
            runs[1] += 1
    else:

        @sg.kernel(graph=True)
        def k(n: sg.i32, c: sg.types.ndarray(sg.i32, ndim=0)):
            c[None] = n
            for i in x:
                x[i] = 100
            while sg.graph_do_while(c):
                for i in x:
                    x[i] += 1
                runs[0] += 1
                c[None] -= 1
            runs[1] += 1

    more = () if kind == "field" else (counter,)
    k(5, *more)
    assert x.to_numpy().tolist() == [105] * 4
    assert runs.to_numpy().tolist() == [5, 1]
    k(1, *more)
    assert x.to_numpy().tolist() == [101] * 4
    assert runs.to_numpy().tolist() == [6, 2]
    assert counter[None] == 0


def test_nested_do_while_with_continue() -> None:
    outer, inner, n = sg.field(sg.i32, ()), sg.field(sg.i32, ()), sg.field(sg.i32, 2)

    @sg.kernel(graph=True)
    def k():
        outer[None] = 3
        while sg.graph.do_while(outer):
            inner[None] = 2
            while sg.graph.do_while(inner):
                n[0] += 1
                inner[None] -= 1
            outer[None] -= 1
            if outer[None] == 1:
                continue
            n[1] += 1

    k()
    assert n.to_numpy().tolist() == [6, 2]


def test_do_while_in_reverse() -> None:
    """Newton's method for a square root: the derivative goes through every step."""
    x, y = sg.field(sg.f64, (), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    go = sg.field(sg.i32, ())
    x[None] = 2.0

    @sg.kernel
    def k():
        v = x[None]
        while sg.graph.do_while(go):
            new = 0.5 * (v + x[None] / v)
            go[None] = sg.abs(new - v) > 1e-12
            v = new
        y[None] = v

    with sg.ad.Tape(y):
        k()
    assert y[None] == pytest.approx(2.0**0.5, abs=1e-12)
    assert x.grad[None] == pytest.approx(0.5 / 2.0**0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (0, "stands only after `while`"),
        (1, "stands only after `with`"),
        (2, "takes no arguments"),
        (3, "takes one flag"),
        (4, "`with` is not part of the kernel language"),
    ],
)
def test_mistakes(use, message) -> None:
    x = sg.field(sg.i32, ())

    @sg.kernel
    def k():
        if sg.static(use == 0):
            x[None] = sg.graph.do_while(x)
        elif sg.static(use == 1):
            sg.stream_parallel()
        elif sg.static(use == 2):
            with sg.stream_parallel(1):
                x[None] = 1
        elif sg.static(use == 3):
            while sg.graph.do_while(x, x):
                x[None] = 0
        else:
            with open(x):
                x[None] = 1

    with pytest.raises(sg.KernelSyntaxError, match=message):
        k()
