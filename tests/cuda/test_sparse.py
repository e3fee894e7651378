"""Gated tasks without adstacks: over the list of what passes where that is estimated to pay, by what passed before."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import left, runtime
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.code import layout_of
from stackgrad.backends.cuda.host_code import HINTS
from stackgrad.backends.cuda.sparse import DEAREST, PROBE, SCAN, START, TRIPS, Costs, costs_of
from stackgrad.compiler.ir.nodes import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

SIZE, STEPS = 1000, 20_000


def entries(driver: Any, kernel: Callable[[], None]) -> list[str]:
    """What a call launches, without the kernel's name; its results are there."""
    before = len(driver.launches)
    kernel()
    sg.sync()
    return ["_".join(name.split("_")[-2:]) for name, *_ in driver.launches[before:]]


LIST, PLACE = ["select_0", "listed_0"], ["task_0"]


class Gated:
    """A kernel whose body is dear, on some data; `expected` after a launch."""

    def __init__(self, size: int = SIZE) -> None:
        self.x, self.y = sg.field(sg.f32, size), sg.field(sg.f32, size)
        self.active = active = sg.field(sg.i32, size)
        self.start = np.linspace(0.1, 1.4, size, dtype=np.float32)
        self.x.from_numpy(self.start)
        x, y = self.x, self.y

        @sg.kernel
        def k() -> None:
            for i in active:
                if active[i] > 0:
                    v = x[i]
                    for _ in range(STEPS):
                        v = v * 0.75 + sg.f32(i + 1)
                    y[i] = v

        self.kernel = k

    def open(self, passing: int, seed: int = 0) -> np.ndarray:
        """Let so many pass."""
        chosen = np.zeros(len(self.start), bool)
        chosen[np.random.default_rng(seed).permutation(len(chosen))[:passing]] = True
        self.active.from_numpy(chosen.astype(np.int32))
        self.y.fill(-1)
        return chosen

    def check(self, chosen: np.ndarray) -> None:
        want = np.where(chosen, 4.0 * (np.arange(len(chosen)) + 1), -1)
        np.testing.assert_allclose(self.y.to_numpy(), want, rtol=1e-5)


def costs(kernel: Kernel, task: int = 0) -> Costs:
    found = costs_of(kernel, task)
    assert found is not None
    return found


def estimate(found: Costs, passing: int, count: int) -> bool:
    """Whether a list pays."""
    by_list = passing * found.body + count * found.scan + START
    return by_list < min(32 * passing, count) * found.body and passing <= count // 2


@pytest.mark.parametrize("passing", [0, 1, 4, 40, 300, 500, 501, 1000])
def test_later_launches_go_by_what_passed(passing: int) -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        g = Gated()
        chosen = g.open(passing)
        assert entries(driver, g.kernel) == LIST, "nothing is known yet"
        g.check(chosen)
        pays = estimate(costs(_forward(g.kernel)), passing, SIZE)
        assert pays == (40 <= passing <= 500)
        for _ in range(4):
            g.open(passing)
            assert entries(driver, g.kernel) == (LIST if pays else PLACE)
            g.check(chosen)
        assert g.kernel.stats().listings == (5 if pays else 1)


def _forward(kernel: Any) -> Kernel:
    (program,) = kernel.programs
    forward, _ = program.launchers
    assert forward is not None
    return forward.kernel  # type: ignore[no-any-return]


def test_what_changes_is_found_after_some_launches() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        g = Gated()
        g.open(0)
        made = [entries(driver, g.kernel) for _ in range(3)]
        assert made == [LIST, PLACE, PLACE]
        chosen = g.open(50)
        made = [entries(driver, g.kernel) for _ in range(PROBE + 10)]
        assert made[0] == PLACE and LIST in made and PLACE not in made[made.index(LIST) :]
        g.check(chosen)
        chosen = g.open(900)
        assert [entries(driver, g.kernel) for _ in range(2)] == [LIST, PLACE], "the list has no room, and that is told"
        g.check(chosen)


def test_launches_in_flight_know_nothing_yet() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        g = Gated()
        g.open(1000)
        for _ in range(3):
            g.kernel()
        assert g.kernel.stats().listings == 3
        sg.sync()
        assert entries(driver, g.kernel) == PLACE


def test_short_and_careful_launches_have_no_list() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        g = Gated(100)
        chosen = g.open(5)
        assert entries(driver, g.kernel) == PLACE, "that many iterations are soon run"
        g.check(chosen)
    for options in ({"debug": True}, {"deterministic": True}):
        with runtime(default_fp=sg.f32, **options) as (_, driver):
            g = Gated()
            chosen = g.open(50)
            assert entries(driver, g.kernel) == PLACE
            g.check(chosen)


def test_sums_and_several_axes_and_bounds_by_arguments() -> None:
    """Launches that stand ready, with more iterations each time, on a list that was made for the first."""
    with runtime(default_fp=sg.f64) as (_, driver):
        active, total = sg.field(sg.i32, (80, 30)), sg.field(sg.f64, ())

        @sg.kernel
        def k(rows: sg.i32) -> None:
            for i, j in sg.ndrange(rows, 30):
                if active[i, j] > 0:
                    v = 0.0
                    for _ in range(STEPS):
                        v = v * 0.5 + i + 100 * j
                    total[None] += v

        gate = np.random.default_rng(1).random((80, 30)) < 0.1
        active.from_numpy(gate.astype(np.int32))
        i, j = np.indices(gate.shape)
        for rows in (40, 40, 40, 40, 60, 80, 80, 5):
            total.fill(0)
            assert entries(driver, lambda n=rows: k(n))[-1] == ("listed_0" if rows > 5 else "task_0")
            want = np.where(gate, 2.0 * (i + 100 * j), 0)[:rows].sum()
            np.testing.assert_allclose(total[None], want, rtol=1e-12)


def test_a_continue_is_a_gate() -> None:
    with runtime(default_fp=sg.f32) as (_, driver):
        active, y = sg.field(sg.i32, SIZE), sg.field(sg.f32, SIZE)

        @sg.kernel
        def k() -> None:
            for i in active:
                if active[i] == 0:
                    continue
                v = 0.0
                for j in range(STEPS):
                    v = v * 0.75 + sg.f32(i + 1)
                    if j > STEPS - 5 and active[i] == 2:
                        break
                y[i] = v

        gate = np.random.default_rng(3).random(SIZE) < 0.07
        active.from_numpy(gate * np.arange(1, SIZE + 1, dtype=np.int32) % 3)
        for _ in range(3):
            assert entries(driver, k) == LIST
        passed = active.to_numpy() > 0
        np.testing.assert_allclose(y.to_numpy(), np.where(passed, 4.0 * np.arange(1, SIZE + 1), 0), rtol=1e-5)


def test_lists_are_given_back() -> None:
    with runtime(default_fp=sg.f32) as (backend, driver):
        for size in (SIZE, 4 * SIZE):
            g = Gated(size)
            chosen = g.open(100)
            assert entries(driver, g.kernel) == LIST
            g.check(chosen)
            del g
        sg.reset()
        assert left(backend, driver) == []


BODY = """kernel k(g: i32[1], x: f32[1]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape g, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: i32 = load g[%2] %4: i32 = const 0 %5: u1 = cmp_gt %3, %4
    %6: i32 = const {trips} %7: f32 = load x[%2]
    if %5 {{ local v: f32 set v, %7
      for %8: i32 in %4 .. {end} {{ %9: f32 = get v %10: f32 = mul %9, %7 set v, %10 }}
      %11: f32 = get v store x[%2], %11 }}
  }} }}"""


def test_costs_of_loops() -> None:
    few, many = (costs(parse_kernel(BODY.format(trips=trips, end="%6"))).body for trips in (20, 120))
    of_a_trip = (many - few) // 100
    assert of_a_trip * 100 == many - few and of_a_trip >= 4
    assert costs(parse_kernel(BODY.format(trips=0, end="%3"))).body == few - (20 - TRIPS) * of_a_trip
    assert costs_of(parse_kernel(BODY.format(trips=1, end="%6")), 0) is None
    most = costs(parse_kernel(BODY.format(trips=1 << 30, end="%6")))
    assert most.body == DEAREST and SCAN < most.scan < SCAN + 10
    assert not Costs(40, 50).room(1 << 30) and Costs(DEAREST, 50).room(1000) == 500


def test_a_kernel_has_room_to_tell_of_some_tasks() -> None:
    task = BODY.format(trips=100, end="%6").split("{", 1)[1].rsplit("}", 1)[0]
    tasks = [task.replace("%", f"%{k}0") for k in range(1, HINTS + 3)]
    kernel = parse_kernel("kernel k(g: i32[1], x: f32[1]) {" + "".join(tasks) + "}")
    assert layout_of(kernel, Options()).hints == {k: k for k in range(HINTS)}
