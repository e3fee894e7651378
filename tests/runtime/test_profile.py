"""`sg.profile()`: launches, times and adstack memory by kernel and task; nothing is counted without."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends.cpu.task_times import TaskTimes, measure_compilation
from stackgrad.backends.launching import launch_collectors
from stackgrad.runtime.session import RUNTIME
from stackgrad.runtime.usage_errors import UsageError


class Two:
    """A kernel of two parallel tasks, the first of them with a loop, on fields of `size` elements."""

    def __init__(self, size: int = 64) -> None:
        self.x = x = sg.field(sg.f32, shape=size, needs_grad=True)
        self.y = y = sg.field(sg.f32, shape=size, needs_grad=True)
        self.n = n = sg.field(sg.i32, shape=size)
        for i in range(size):
            x[i], n[i] = 0.5, 3 + i % 4

        @sg.kernel
        def two() -> None:
            for i in range(size):
                v = x[i]
                for _ in range(n[i]):
                    v = sg.sin(v) * v
                y[i] = v
            for i in range(size):
                y[i] += 1.0

        self.two: Any = two


def named(profile: sg.Profile) -> dict[str, sg.KernelProfile]:
    return {kernel.name: kernel for kernel in profile.kernels}


@pytest.fixture(params=["cpu", "reference"])
def two(request: pytest.FixtureRequest) -> Two:
    sg.init(arch=request.param)
    return Two()


def test_kernels_and_tasks(two: Two) -> None:
    two.two()
    with sg.profile() as profile:
        for _ in range(3):
            two.two()
        two.two.grad()
    two.two()
    found = named(profile)
    assert (found["two"].launches, found["two.grad"].launches) == (3, 1)
    for kernel in (found["two"], found["two.grad"]):
        assert 0 < kernel.least <= kernel.mean <= kernel.most <= kernel.seconds
        assert [task.task for task in kernel.tasks] == [*range(len(kernel.tasks))]
        assert {task.kind for task in kernel.tasks} == {"parallel"}
        assert all("test_profile.py:" in task.place for task in kernel.tasks)
    assert len(found["two"].tasks) == 2
    assert profile.launches == sum(kernel.launches for kernel in profile.kernels)
    assert profile.seconds == pytest.approx(sum(kernel.seconds for kernel in profile.kernels))
    assert [kernel.seconds for kernel in profile.kernels] == sorted((k.seconds for k in found.values()), reverse=True)


def test_adstack_memory(two: Two) -> None:
    with sg.profile() as profile:
        two.two()
        two.two.grad()
    forward, gradient = named(profile)["two"], named(profile)["two.grad"]
    assert forward.bytes == 0 and {task.bytes for task in forward.tasks} == {0}
    assert gradient.bytes == max(task.bytes for task in gradient.tasks) >= 6 * 4
    used = {use.task: use.bytes for use in sg.adstack_report().tasks if use.kernel == "two.grad"}
    assert {task.task: task.bytes for task in gradient.tasks if task.bytes} == used


def test_tasks_share_the_time_of_the_launch() -> None:
    """Whatever the machine does meanwhile: all tasks together take no longer than the launch."""
    sg.init(arch=sg.cpu)
    two = Two()
    with sg.profile() as profile:
        for _ in range(5):
            two.two()
    (kernel,) = profile.kernels
    times = [task.seconds for task in kernel.tasks]
    assert None not in times and all(t >= 0 for t in times if t is not None)
    assert 0 < sum(t for t in times if t is not None) <= kernel.seconds
    assert {task.launches for task in kernel.tasks} == {5}


def test_the_reference_cannot_tell_tasks_apart() -> None:
    sg.init(arch=sg.reference)
    two = Two()
    with sg.profile() as profile:
        two.two()
    assert [task.seconds for task in profile.kernels[0].tasks] == [None, None]
    assert "parallel 1" in str(profile)


def test_a_task_that_does_more_takes_longer() -> None:
    sg.init(arch=sg.cpu)
    x = sg.field(sg.f64, shape=2)

    @sg.kernel
    def uneven(n: sg.i32) -> None:
        for _ in range(1):
            for k in range(n):
                x[0] += sg.sin(x[0] + k)
        for _ in range(1):
            x[1] += 1.0

    uneven(1)
    with sg.profile() as profile:
        for _ in range(3):
            uneven(20_000)
    long, short = profile.kernels[0].tasks
    assert long.seconds is not None and short.seconds is not None and long.seconds > short.seconds


def test_nothing_is_told_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu)
    two = Two()
    profile = sg.profile()
    two.two()
    with profile:
        two.two()
    two.two()
    assert profile.launches == 1
    assert launch_collectors._collectors == () and RUNTIME.profiles == () and not RUNTIME.words[0]


def test_launches_that_stand_ready_are_seen() -> None:
    """Those that would otherwise be native throughout."""
    sg.init(arch=sg.cpu)
    two = Two()
    for _ in range(200):
        two.two()
    with sg.profile() as profile:
        assert RUNTIME.words[0]
        for _ in range(7):
            two.two()
    for _ in range(3):
        two.two()
    assert named(profile)["two"].launches == 7
    assert two.two.stats().launches == 210


def test_goes_on_and_is_cleared(two: Two) -> None:
    profile = sg.profile()
    for _ in range(2):
        with profile:
            two.two()
    assert profile.launches == 2
    profile.clear()
    assert profile.kernels == () and str(profile) == "no kernel was launched"


def test_two_at_once(two: Two) -> None:
    with sg.profile() as outer:
        two.two()
        with sg.profile() as inner:
            two.two()
        with pytest.raises(UsageError, match="being taken already"):
            outer.start()
    assert (outer.launches, inner.launches) == (2, 1)


def test_it_ends_when_the_program_fails(two: Two) -> None:
    with pytest.raises(ZeroDivisionError), sg.profile() as profile:
        two.two()
        1 / 0  # noqa: B018
    two.two()
    assert profile.launches == 1


def test_a_launch_that_raises_is_not_counted() -> None:
    sg.init(arch=sg.cpu, debug=True)
    x = sg.field(sg.f32, shape=3)

    @sg.kernel
    def beyond(k: sg.i32) -> None:
        x[k] = 1.0

    with sg.profile() as profile:
        beyond(1)
        with pytest.raises(sg.OutOfBounds):
            beyond(3)
    assert profile.kernels[0].launches == 1


def test_across_init() -> None:
    with sg.profile() as profile:
        for arch in (sg.cpu, sg.reference):
            sg.init(arch=arch)
            Two().two()
    assert [kernel.name for kernel in profile.kernels] == ["two", "two"]


def test_under_a_tape(two: Two) -> None:
    loss = sg.field(sg.f32, shape=(), needs_grad=True)

    @sg.kernel
    def add() -> None:
        for i in range(4):
            loss[None] += two.y[i]

    with sg.profile() as profile, sg.ad.Tape(loss):
        two.two()
        add()
    assert {name: k.launches for name, k in named(profile).items() if "count" not in name} == {
        "two": 1,
        "add": 1,
        "two.grad": 1,
        "add.grad": 1,
    }


def test_from_several_threads() -> None:
    sg.init(arch=sg.cpu)
    two = Two()
    two.two()
    with sg.profile() as profile:
        threads = [threading.Thread(target=lambda: [two.two() for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert profile.kernels[0].launches == 80


def test_the_table(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(0.0, 0.25)
    with sg.profile() as profile:
        monkeypatch.setattr(launch_collectors.time, "perf_counter", lambda: next(ticks))
        two.two()
        two.two()
        monkeypatch.undo()
    lines = str(profile).splitlines()
    assert lines[0].split() == ["kernel,", "task", "launches", "time", "share", "mean", "least", "most", "adstacks"]
    assert lines[1].split()[:2] == ["two", "2"] and "100.0%" in lines[1]
    assert lines[2].startswith("  parallel 0") and "test_profile.py:" in lines[2]
    assert len(lines) == 4


# ---- laps ---------------------------------------------------------------------------------------------------


def laps_of(ticks: list[int], seconds: float) -> TaskTimes:
    laps = TaskTimes(len(ticks))
    laps._ticks[1:] = ticks
    laps.seconds = seconds
    return laps


def test_readings_are_shares() -> None:
    assert laps_of([100, 300, 0], 2.0).by_task() == [0.5, 1.5, 0.0]
    assert laps_of([0, 0], 2.0).by_task() is None


def test_code_made_meanwhile_is_no_time_of_a_task() -> None:
    laps = laps_of([300, 100], 4.0)
    laps._made.update({1: 0.5, -1: 1.0})
    assert laps.by_task() == [2.0, 0.5] and laps.aside == 1.5
    laps._made[1] = 7.0
    assert laps.by_task() == [2.0, 0.0]


def test_making_is_noted_by_the_launch_that_waits() -> None:
    with measure_compilation(0):
        pass  # no launch waits
    laps = TaskTimes(1)
    kept: list[float] = []

    class Memory:
        def __init__(self) -> None:
            self.address = 0

        def put(self, at: int, word: int) -> None:
            kept.append(word)

    class Places:
        laps_at = 8

    def launch(_: int) -> int:
        with measure_compilation(0):
            time.sleep(0.01)
        return 5

    assert laps.around(launch, Memory(), Places()) == 5  # type: ignore[arg-type]
    assert 0.01 <= laps.aside <= laps.seconds and kept[0] != 0 == kept[1]
