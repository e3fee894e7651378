"""Launches on several threads: results as on one, errors, prints, and other threads beside them."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.cpu import cores
from stackgrad.backends.cpu.pool import pool

SIZE = 1 << 15


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads, whatever the machine has."""
    monkeypatch.setattr(cores, "available", lambda: 4)


def jobs_of(action: Callable[[], Any]) -> int:
    """How many tasks an action ran with the workers of the pool."""
    before = pool().jobs
    action()
    return pool().jobs - before


def _recurrence(x: Any, y: Any, steps: int) -> Callable[[], Any]:
    @sg.kernel
    def recurrence(m: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(m):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v

    return lambda: recurrence(steps)


def _run(threads: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray, int]:
    sg.init(arch=sg.cpu, cpu_max_num_threads=threads)
    x = sg.field(sg.f32, shape=size, needs_grad=True)
    y = sg.field(sg.f32, shape=size, needs_grad=True)
    x.from_numpy(np.random.default_rng(0).uniform(-3, 3, size).astype(np.float32))

    @sg.kernel
    def recurrence(m: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(m):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v

    y.grad.fill(1.0)

    def both() -> None:
        recurrence(10)
        recurrence.grad(10)

    jobs = jobs_of(both)
    return y.to_numpy(), x.grad.to_numpy(), jobs


def test_results_and_gradients_are_those_of_one_thread() -> None:
    y, dx, jobs = _run(4)
    alone_y, alone_dx, none = _run(1)
    assert jobs == 2 and none == 0
    np.testing.assert_array_equal(y, alone_y)
    np.testing.assert_array_equal(dx, alone_dx)


def test_small_loops_wake_nobody() -> None:
    assert _run(4, size=16)[2] == 0


def test_the_number_of_threads_is_checked() -> None:
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(sg.OptionError, match="cpu_max_num_threads"):
            sg.init(arch=sg.cpu, cpu_max_num_threads=wrong)


@pytest.mark.parametrize("dtype", ["i32", "f32", "f16", "u8"])
def test_updates_that_meet_are_atomic(dtype: str) -> None:
    """Every bin gets as much as there are iterations of it; f16 and u8 have no instruction of their own."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    kind = {"u8": sg.u8, "i32": sg.i32, "f16": sg.f16, "f32": sg.f32}[dtype]
    bins = sg.field(kind, shape=8)
    most = 100 if dtype == "u8" else 1000

    @sg.kernel
    def fill(n: sg.i32, m: sg.i32):
        for i in range(n):
            v = 0.5
            for _ in range(m):
                v = sg.sin(v)
            sg.atomic_add(bins[i % 8], sg.cast(v < 2.0, kind))

    fill(8 * most, 3000)  # after which it is known how long it takes
    for _ in range(5):
        bins.fill(0)
        assert jobs_of(lambda: fill(8 * most, 3000)) == 1
        np.testing.assert_array_equal(bins.to_numpy(), np.full(8, most))


def test_sums_of_threads_lose_nothing() -> None:
    """Of numbers with so few digits that no order rounds."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    x, total = sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=())
    values = np.random.default_rng(1).integers(0, 256, SIZE).astype(np.float32) / np.float32(256)
    x.from_numpy(values)

    @sg.kernel
    def add():
        for i in x:
            v = x[i]
            for _ in range(20):
                v = sg.sqrt(v * v)
            total[None] += v

    jobs_of(add)
    assert total[None] == values.sum(dtype=np.float64)


def test_random_numbers_do_not_depend_on_threads() -> None:
    (alone, none), (two, one), (four, again) = (_draw(threads) for threads in (1, 2, 4))
    assert (none, one, again) == (0, 1, 1)
    np.testing.assert_array_equal(alone, two)
    np.testing.assert_array_equal(alone, four)


def _draw(threads: int) -> tuple[np.ndarray, int]:
    sg.init(arch=sg.cpu, cpu_max_num_threads=threads, random_seed=7)
    x = sg.field(sg.f32, shape=SIZE)

    @sg.kernel
    def draw():
        for i in x:
            s = 0.0
            for _ in range(i % 5 + 5):
                s += sg.random()
            x[i] = s

    jobs = jobs_of(draw)
    return x.to_numpy(), jobs


def test_lines_come_in_the_order_of_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)

    @sg.kernel
    def count(n: sg.i32):
        for i in range(n):
            v = 0.5
            for _ in range(1000):
                v = sg.sin(v)
            if v > 0:
                print(i)

    assert jobs_of(lambda: count(200)) == 0
    assert capsys.readouterr().out == "".join(f"{i}\n" for i in range(200))


def test_a_launch_inside_a_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that launches: the inner launch has the workers, since a task that prints does without."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    x, y = sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=SIZE)
    inner = _recurrence(x, y, 20)

    @sg.kernel
    def outer():
        for i in range(3):
            print(i)

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            inner()
            return len(text)

    monkeypatch.setattr(sys, "stdout", Stream())
    assert jobs_of(outer) >= 3


def test_an_overflow_on_a_worker_is_raised_and_forgotten() -> None:
    from stackgrad.backends.base import Draws, Options, Sizes
    from stackgrad.backends.cpu.backend import CpuBackend
    from stackgrad.compiler.errors import AdstackOverflow
    from stackgrad.compiler.ir.parser import parse_kernel

    kernel = parse_kernel("""kernel k(x: i32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %9: i32 in %0 .. %1 {
        adstack_alloca s: i32 capacity 300
        %2: i32 = load x[%9]
        %3: i32 = const 0
        for %4: i32 in %3 .. %2 { adstack_push s, %4 }
        for %5: i32 in %3 .. %2 { adstack_pop s }
        store x[%9], %3
      }
    }""")
    executable = CpuBackend().compile(kernel, Options(threads=4))
    for place in (0, 7777, 19_999):
        x = np.full(20_000, 300, np.int32)
        x[place] = 301
        with pytest.raises(AdstackOverflow, match="holds 300 values and .* made it 301"):
            executable.run({"x": x}, {}, Sizes(), Draws())
        assert x[place] == 301
        x[place] = 5
        executable.run({"x": x}, {}, Sizes(), Draws())
        assert not x.any()


# ---- other threads ------------------------------------------------------------------------------------------


def test_launches_from_several_threads_at_once() -> None:
    """The same kernel and others; one launch has the workers, the others go on without."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    pairs = [(sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=SIZE)) for _ in range(4)]
    launches = []
    for k, (x, y) in enumerate(pairs):
        x.fill(0.1 * (k + 1))
        launches.append(_recurrence(x, y, 8))
        launches[-1]()
    expected = [y.to_numpy() for _, y in pairs]
    for _, y in pairs:
        y.fill(0.0)
    threads = [threading.Thread(target=lambda f=f: [f() for _ in range(20)]) for f in launches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (_, y), right in zip(pairs, expected):
        np.testing.assert_array_equal(y.to_numpy(), right)


def test_beside_a_pool_of_another_library() -> None:
    """Threads that compute elsewhere all the while."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    x, y = sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=SIZE)
    launch, over = _recurrence(x, y, 8), threading.Event()
    a = np.random.default_rng(2).normal(size=(200, 200))

    def multiply() -> None:
        while not over.is_set():
            np.matmul(a, a)

    threads = [threading.Thread(target=multiply) for _ in range(3)]
    for thread in threads:
        thread.start()
    launch()
    right = y.to_numpy()
    for _ in range(50):
        y.fill(0.0)
        launch()
        np.testing.assert_array_equal(y.to_numpy(), right)
    over.set()
    for thread in threads:
        thread.join()


def test_python_goes_on_during_a_long_launch() -> None:
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    x, y = sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=SIZE)
    launch, turns, over = _recurrence(x, y, 5000), [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            turns[0] += 1

    launch()
    thread = threading.Thread(target=count)
    thread.start()
    before = turns[0]
    launch()
    during = turns[0] - before
    over.set()
    thread.join()
    assert during > 0


def test_signals_are_not_for_workers() -> None:
    """A signal handler of Python runs though workers exist, and no worker takes the process down."""
    sg.init(arch=sg.cpu, cpu_max_num_threads=4)
    x, y = sg.field(sg.f32, shape=SIZE), sg.field(sg.f32, shape=SIZE)
    launch = _recurrence(x, y, 20)
    caught: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            launch()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert len(caught) > 0
