"""One name for several kernels: each call runs one of them, and the faster one in the end."""

from __future__ import annotations

import time

import pytest
import stackgrad as sg
from stackgrad.launch.dispatch import perf_dispatch


@pytest.fixture(autouse=True)
def runtime() -> None:
    sg.init(arch="reference")


def test_every_call_runs_one_implementation_and_the_faster_one_wins() -> None:
    ran: list[str] = []

    @perf_dispatch(get_geometry_hash=lambda n: n, warmup=1, active=2, repeat_after_seconds=0)
    def f(n): ...

    @f.register
    def slow(n):
        ran.append("slow")
        time.sleep(0.003)
        return n

    @f.register
    def fast(n):
        ran.append("fast")
        return n

    assert [f(3) for _ in range(10)] == [3] * 10
    assert len(ran) == 10 and ran[:6].count("slow") == 3 and ran[6:] == ["fast"] * 4
    f(4)
    assert ran[-1] == "slow", "another geometry has a trial of its own"


def test_kernels_under_a_tape() -> None:
    x, loss = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @perf_dispatch(get_geometry_hash=lambda: 0)
    def total(): ...

    @total.register
    @sg.kernel
    def by_product():
        for i in x:
            loss[None] += 3.0 * x[i]

    @total.register
    @sg.kernel
    def by_sum():
        for i in x:
            loss[None] += x[i] + x[i] + x[i]

    for _ in range(9):
        with sg.ad.Tape(loss):
            total()
        assert x.grad.to_numpy().tolist() == [3.0] * 4


def test_only_what_is_compatible_runs() -> None:
    @perf_dispatch(get_geometry_hash=lambda n: 0)
    def f(n): ...

    @f.register(is_compatible=lambda n: n > 10)
    def large(n):
        return "large"

    @f.register(is_compatible=lambda n: n < 100)
    def small(n):
        return "small"

    assert f(1) == "small" and f(200) == "large"

    @perf_dispatch(get_geometry_hash=lambda n: 0)
    def g(n): ...

    @g.register(is_compatible=lambda n: False)
    def never(n): ...

    with pytest.raises(sg.UsageError, match="no implementation of g fits"):
        g(1)


def test_parameters_are_those_of_the_prototype() -> None:
    @perf_dispatch(get_geometry_hash=lambda n: 0)
    def f(n): ...

    with pytest.raises(sg.UsageError, match="has the parameters m"):

        @f.register
        @sg.kernel
        def other(m: sg.i32): ...


def test_a_trial_is_repeated_after_so_many_calls() -> None:
    ran: list[int] = []

    @perf_dispatch(get_geometry_hash=lambda: 0, first_warmup=0, active=1, repeat_after_count=3, repeat_after_seconds=0)
    def f(): ...

    @f.register
    def first():
        ran.append(1)
        time.sleep(0.002)

    @f.register
    def second():
        ran.append(2)

    for _ in range(8):
        f()
    assert ran == [1, 2, 2, 2, 2, 1, 2, 2]
