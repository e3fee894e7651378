"""Test launches through a CUDA graph, on the emulated driver: functions and arguments are as without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import stackgrad as sg
from on_emulator import runtime
from recorded_support import forward, gradient, memory_of, near
from replaying import accumulated, adding, eager
from stackgrad.backends.cuda.graph_replay import PATIENCE


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
