"""A profile on the device: the time of each task lies between two events of the stream."""

from __future__ import annotations

from typing import Any

import stackgrad as sg
from on_emulator import runtime


def uneven() -> Any:
    x = sg.field(sg.f64, 8)

    @sg.kernel
    def k(n: sg.i32, m: sg.i32):
        for i in range(8):
            for j in range(n):
                x[i] += sg.sin(x[i] + j)
        for i in range(8):
            x[i] += 1.0
        for i in range(8):
            for j in range(m):
                x[i] += sg.sin(x[i] + j)

    return k


def test_times_are_those_of_the_tasks() -> None:
    with runtime():
        k = uneven()
        k(1, 1)
        for counts, longest in (((20_000, 1), 0), ((1, 20_000), 2)):
            with sg.profile() as profile:
                k(*counts)
            (kernel,) = profile.kernels
            times = [task.seconds for task in kernel.tasks]
            assert len(times) == 3 and max(range(3), key=times.__getitem__) == longest
            assert times[longest] > 10 * times[1] > 0 and sum(times) <= kernel.seconds


def test_events_are_given_back_and_nobody_else_makes_any() -> None:
    with runtime() as (_, driver):
        k = uneven()
        k(1, 1)
        k(2, 1)
        sg.sync()
        assert not driver._events and driver.pending == 0
        with sg.profile():
            k(1, 1)
        assert not driver._events
        for _ in range(8):
            k(1, 1)
        sg.sync()
        assert not driver._events


def test_tasks_without_iterations_take_their_turn() -> None:
    with runtime():
        x = sg.field(sg.f32, 4)

        @sg.kernel
        def k(n: sg.i32, m: sg.i32):
            for i in range(n):
                x[i] = 1.0
            for i in range(m):
                x[i] = 2.0

        with sg.profile() as profile:
            k(0, 4)
        assert [t.seconds is not None and t.seconds >= 0 for t in profile.kernels[0].tasks] == [True, True]
        assert x.to_numpy().tolist() == [2.0] * 4
