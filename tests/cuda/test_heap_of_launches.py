"""The heap as launches on a device use it: growth, streams, what cannot be had, copies of what counting writes."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import bounded, gradients, memory_of, near
from stackgrad.capture import capture
from stackgrad.compiler.errors import DeviceError
from stackgrad.harness.testing.bounds import BoundedResult
from stackgrad.harness.testing.emulated_cuda.driver import CARD

SIZE = 64


def recurrence(trips: sg.Field) -> tuple[sg.Kernel, sg.Field, sg.Field]:
    """y[i] = sin applied trips[None] times to x[i]."""
    x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
    x.from_numpy(np.linspace(0.2, 0.9, SIZE, dtype=np.float32))

    @sg.kernel
    def wave() -> None:
        for i in x:
            v = x[i]
            for _ in range(trips[None]):
                v = sg.sin(v)
            y[i] = v

    return wave, x, y


def slopes(x: np.ndarray, count: int) -> np.ndarray:
    v, slope = x.astype(float), np.ones(len(x))
    for _ in range(count):
        slope *= np.cos(v)
        v = np.sin(v)
    return slope


def launched(wave: sg.Kernel, x: sg.Field, y: sg.Field, counts: Sequence[int]) -> BoundedResult:
    """Gradients of one launch after another, each with ones as adjoint of y, from a gradient of 0."""
    zeros, ones = np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32)
    changes = [{"y.grad": ones, "trips": np.array(count, np.int32)} for count in counts]
    return gradients(wave.ir(), memory_of(x=x, y=y) | {"x.grad": zeros}, changes)


def test_the_heap_grows_under_launches_in_flight_and_leaks_nothing() -> None:
    with runtime(default_fp=sg.f32) as (backend, driver):
        trips = sg.field(sg.i32, ())
        wave, x, y = recurrence(trips)
        wave()
        counts = (3, 30, 300, 30)
        for count in counts:
            trips[None] = count
            y.grad.fill(1)
            wave.grad()
        total = sum(slopes(np.linspace(0.2, 0.9, SIZE, dtype=np.float32), count) for count in counts)
        near(launched(wave, x, y, counts), "x.grad", x.grad.to_numpy(), total)
        held = sg.adstack_report().slabs["real"]
        assert held["current"] == held["peak"] == 300 * 4 * SIZE and wave.stats().growths == 3
        sg.reset()
        gc.collect()
        assert not [leak for leak in driver.leaks() if leak.bytes == held["current"]]


def test_a_request_over_the_memory_of_the_device_is_refused_before_anything_is_written() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        driver.card = replace(CARD, memory_bytes=64 << 20)
        trips = sg.field(sg.i32, ())
        wave, x, y = recurrence(trips)
        trips[None] = 4
        wave()
        y.grad.fill(1)
        trips[None] = 20_000_000
        with pytest.raises(DeviceError) as caught:
            wave.grad()
        text = str(caught.value)
        assert "the adstacks need 80000000 bytes of real slots" in text and "nothing was run" in text
        assert "for the history of v: 20000000 slots of 4 bytes" in text and "test_heap_of_launches.py" in text
        assert not x.grad.to_numpy().any() and (y.grad.to_numpy() == 1).all()
        trips[None] = 4
        wave.grad()
        near(launched(wave, x, y, (4,)), "x.grad", x.grad.to_numpy(), slopes(x.to_numpy(), 4))


def test_what_does_not_fit_for_all_threads_runs_with_fewer_rows() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        driver.card = replace(CARD, memory_bytes=64 << 20)
        others = driver.allocate(59 << 20)
        trips = sg.field(sg.i32, ())
        wave, x, y = recurrence(trips)
        trips[None] = 60_000
        y.grad.fill(1)
        wave.grad()
        found = x.grad.to_numpy()
        (use,) = sg.adstack_report().tasks
        held = sg.adstack_report().slabs["real"]["current"]
        assert use.rows == SIZE and held <= 5 << 20 and 1 <= held // (4 * 60_000) < SIZE
        assert np.isfinite(found).all() and (found > 0).all()
        driver.free(others)


def test_launches_on_two_streams_share_no_history() -> None:
    with runtime(default_fp=sg.f32):
        trips = sg.field(sg.i32, ())
        trips[None] = 8
        wave, x, y = recurrence(trips)
        other, z, w = recurrence(trips)
        for field in (y, w):
            field.grad.fill(1)
        sg.sync()
        with sg.Stream() as stream:
            for _ in range(3):
                wave.grad()
                y.grad.fill(1)
                with sg.cuda.stream(stream):
                    other.grad()
                    w.grad.fill(1)
            assert sg.adstack_report().slabs["real"]["current"] == 2 * 8 * 4 * SIZE
            sg.sync()
        known = launched(wave, x, y, (8, 8, 8))
        for field in (x, z):
            near(known, "x.grad", field.grad.to_numpy(), 3 * slopes(field.to_numpy(), 8))
        assert sg.adstack_report().slabs["real"]["current"] == 8 * 4 * SIZE


def test_counting_runs_on_copies_of_what_it_writes() -> None:
    with runtime(default_fp=sg.f32):
        x, y = (sg.field(sg.f32, SIZE, needs_grad=True) for _ in range(2))
        turn, loss = sg.field(sg.i32, SIZE), sg.field(sg.f32, (), needs_grad=True)

        @sg.kernel
        def waves() -> None:
            for i in x:
                v = x[i]
                for _ in range(sg.atomic_add(turn[i], 2) + 3):
                    v = sg.sin(v)
                y[i] = v

        x.from_numpy(np.linspace(0.2, 0.9, SIZE, dtype=np.float32))

        @sg.kernel
        def total() -> None:
            for i in y:
                loss[None] += y[i]

        with capture() as recorded, sg.ad.Tape(loss=loss):
            waves()
            total()
        stats = waves.stats()
        assert stats.countings == 1 and stats.bytes["real"] == 3 * 4 * SIZE
        assert (turn.to_numpy() == 2).all()
        near(bounded(recorded.launches[-1]), "x.grad", x.grad.to_numpy(), slopes(x.to_numpy(), 3))
