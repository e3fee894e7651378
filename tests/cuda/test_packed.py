"""Gated tasks without adstacks run over what passes of each chunk: in blocks and warps, results are those of a CPU."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import bounded, forward, memory_of, near
from stackgrad.backends.cuda import code, warp
from stackgrad.capture import capture
from stackgrad.harness.bounds import Bounded
from stackgrad.harness.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.emulated_cuda.fibers import AVAILABLE

SIZES = (0, 1, 2, 3, 31, 127, 128, 129, 1023, 1024, 1025, 2300)
RATES = (0.0, 0.05, 0.5, 1.0)
STEPS = 80

DRIVERS: dict[str, dict[str, Any]] = {
    "threads": {}, "three threads": {"most": 3, "backward": True},
    "blocks": {"blocks": True}, "two blocks": {"blocks": True, "most": 256, "backward": True},
}  # fmt: skip
if not AVAILABLE:
    DRIVERS = {name: how for name, how in DRIVERS.items() if not how.get("blocks")}
"""How grids run: see EmulatedDriver. Two blocks take chunks of 128, 512 and 1,024 of these sizes."""


@contextmanager
def device(name: str, **options: Any) -> Iterator[EmulatedDriver]:
    driver = EmulatedDriver(**DRIVERS[name])
    with runtime(driver, **options):
        yield driver
        assert not driver.early, "a thread was over when others met at a barrier"


def chosen(size: int, rate: float) -> np.ndarray:
    out = np.zeros(size, bool)
    out[np.random.default_rng(size).permutation(size)[: round(rate * size)]] = True
    return out


def work(gate: sg.Field, x: sg.Field, y: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k(n: sg.i32) -> None:
        for i in range(n):
            if gate[i] > 0:
                v = x[i]
                for _ in range(STEPS):
                    v = v * 0.75 + 1.0
                y[i] = v

    return k


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("kind", [sg.i32, sg.f32], ids=str)
def test_every_number_of_iterations(name: str, kind: Any) -> None:
    most = SIZES[-1]
    with device(name, default_fp=sg.f32) as driver:
        gate, x, y = sg.field(kind, most), sg.field(sg.f32, most), sg.field(sg.f32, most)
        start = np.linspace(-1, 1, most, dtype=np.float32)
        want = np.float64(start)
        for _ in range(STEPS):
            want = want * 0.75 + 1.0
        x.from_numpy(start)
        k = work(gate, x, y)
        open_ = {"gate": np.ones_like(gate.to_numpy())}
        known = forward(k.ir(), memory_of(x=x, y=y) | open_, {"n": most})
        for size in SIZES:
            for rate in RATES:
                passes = chosen(most, rate)
                gate.from_numpy(passes.astype(np.int32 if kind is sg.i32 else np.float32))
                y.fill(-7.0)
                for _ in range(2):
                    k(size)
                sg.sync()
                passes[size:] = False
                content = {"y": np.where(passes, known.arrays["y"], np.float32(-7.0))}
                partly = replace(known, arrays=content, errors={"y": passes * known.errors["y"]})
                near(partly, "y", y.to_numpy(), np.where(passes, want, -7.0))
        assert {entry for entry, *_ in driver.launches} == {"k_packed_0"}


class Data:
    """gate > 0 in one of eight; the rest is content."""

    SIZE, RESULTS = 1400, {"y", "total", "most"}

    def __init__(self) -> None:
        draw, size = np.random.default_rng(8), self.SIZE
        self.gate, self.n = sg.field(sg.i32, size), sg.field(sg.i32, size)
        self.x, self.y = sg.field(sg.f64, size), sg.field(sg.f64, size)
        self.total, self.most = sg.field(sg.f64, ()), sg.field(sg.i32, 8)
        self.gate.from_numpy(((draw.random(size) < 0.125) * draw.integers(1, 9, size)).astype(np.int32))
        self.n.from_numpy(draw.integers(0, 20, size).astype(np.int32))
        self.x.from_numpy(draw.normal(size=size))



def by_else(d: Data) -> sg.Kernel:
    gate, n, x, y = d.gate, d.n, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in range(Data.SIZE):
            v = x[i]
            if gate[i] == 0:
                v = 2.0
            else:
                for _ in range(n[i]):
                    v = v * 0.5 + 1.0
                y[i] = v

    return k


def by_continue(d: Data) -> sg.Kernel:
    gate, n, x, y = d.gate, d.n, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] == 0 or x[i] < -1.0:
                continue
            v = x[i]
            for j in range(n[i]):
                if v > 3.0:
                    break
                v += sg.cos(v) + j
            y[i] = v

    return k


def in_two_steps(d: Data) -> sg.Kernel:
    gate, x, y, total = d.gate, d.x, d.y, d.total

    @sg.kernel
    def k() -> None:
        for i in gate:
            passes = gate[i] > 2 and x[i] > -0.5
            v = x[i]
            if passes:
                for _ in range(STEPS):
                    v = sg.sin(v) + 0.25
                y[i] = v
            w = v * 2.0
            if passes:
                total[None] += w
                y[i] += 1.0

    return k


def with_sums(d: Data) -> sg.Kernel:
    gate, n, x, total, most = d.gate, d.n, d.x, d.total, d.most

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] > 0:
                v = 0.0
                while v < n[i]:
                    v += 0.75 + sg.abs(x[i])
                total[None] += v
                sg.atomic_max(most[gate[i] - 1], n[i])

    return k


def of_two_axes(d: Data) -> sg.Kernel:
    gate, x, y = d.gate, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i, j in sg.ndrange((2, 70), 20):
            if gate[i * 20 + j] > 0:
                v = x[i * 20 + j]
                for _ in range(STEPS):
                    v = v * 0.5 + i - j
                y[i * 20 + j] = v

    return k


def of_nested_gates(d: Data) -> sg.Kernel:
    gate, n, x, y = d.gate, d.n, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] > 0:  # noqa: SIM102
                if x[i] > 0.0:
                    v = x[i]
                    for _ in range(n[i]):
                        v = v * 0.5 + 1.0
                    y[i] = v

    return k


def with_bounds_of_its_own(d: Data) -> sg.Kernel:
    """The device finds the bounds first, for the task writes what they read."""
    gate, n, x, most = d.gate, d.n, d.x, d.most

    @sg.kernel
    def k() -> None:
        for i in range(most[7], most[6] + 1000):
            if gate[i] > 0:
                v = x[i]
                for _ in range(n[i]):
                    v = v * 0.5 + 1.0
                sg.atomic_add(most[gate[i] % 6], sg.i32(v * 8.0))

    return k


def with_draws(d: Data) -> sg.Kernel:
    x, y = d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in x:
            if sg.random(sg.f64) < 0.2:
                v = x[i]
                for _ in range(STEPS):
                    v += sg.random(sg.f64)
                y[i] = v

    return k


FORMS = (
    by_else, by_continue, in_two_steps, with_sums, of_two_axes, of_nested_gates, with_bounds_of_its_own, with_draws,
)  # fmt: skip


@cache
def launched(form: Callable[[Data], sg.Kernel]) -> Bounded:
    """What two launches in a row leave."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    kernel = form(Data())
    with capture() as recorded:
        kernel()
        kernel()
    sg.reset()
    return bounded(recorded.launches[1], bounded(recorded.launches[0]))


MODES = ({}, {"deterministic": True}, {"precise": True}, {"debug": True})


@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "blocks"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode), "default"))
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_gate(form: Callable[[Data], sg.Kernel], mode: dict[str, bool], name: str) -> None:
    known = launched(form)
    with device(name, default_fp=sg.f64, **mode) as driver:
        data = Data()
        kernel = form(data)
        for _ in range(2):
            kernel()
        for array in known.arrays.keys() & data.RESULTS:
            near(known, array, getattr(data, array).to_numpy())
        packed = any("_packed_" in entry for entry, *_ in driver.launches)
        assert packed == (not mode.get("debug"))


def test_what_is_cheap_runs_in_place() -> None:
    with device("threads", default_fp=sg.f32) as driver:
        x, y = sg.field(sg.f32, 300), sg.field(sg.f32, 300)

        @sg.kernel
        def k() -> None:
            for i in x:
                if x[i] > 0.0:
                    y[i] = sg.exp(x[i]) * sg.log(x[i]) + sg.sqrt(x[i])

        k()
        assert [entry for entry, *_ in driver.launches] == ["k_task_0"]


@pytest.mark.skipif(not AVAILABLE, reason="the C library switches contexts on Linux alone")
@pytest.mark.parametrize("left_out", [0, 1])
def test_a_barrier_that_is_left_out_is_seen(left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one of a list: counts of warps are read too early; the second: so are the entries."""
    barrier, calls = warp._barrier, list[int]()

    def some(m: Any, b: Any) -> None:
        if b.function.ref.startswith('@"sg.block.list'):
            calls.append(0)
            if len(calls) % 2 != left_out:
                barrier(m, b)
        else:
            barrier(m, b)

    monkeypatch.setattr(warp, "_barrier", some)
    driver = EmulatedDriver(blocks=True, strict=False)
    with runtime(driver, default_fp=sg.f32):
        gate, x, y = sg.field(sg.i32, 500), sg.field(sg.f32, 500), sg.field(sg.f32, 500)
        passes = chosen(500, 0.5)
        gate.from_numpy(passes.astype(np.int32))
        work(gate, x, y)(500)
        try:
            sg.sync()
        except Exception as error:
            assert "ILLEGAL_ADDRESS" in str(error)
        else:
            assert ((y.to_numpy() != 0) != passes).any()
    assert calls


def body_fails(divisor: sg.Field, y: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k() -> None:
        for i in divisor:
            if y[i] > 2:
                v = 0
                for _ in range(y[i]):
                    v += 100 // divisor[i]
                y[i] = v

    return k


def gate_fails(divisor: sg.Field, y: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k() -> None:
        for i in divisor:
            if y[i] // divisor[i] > 2:
                v = 0
                for _ in range(y[i]):
                    v += 100
                y[i] = v

    return k


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("form", [body_fails, gate_fails], ids=lambda form: form.__name__)
def test_all_threads_meet_where_some_have_failed(
    form: Callable[[sg.Field, sg.Field], sg.Kernel], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only debug builds look whether something fails, and they run in place if they may."""
    right = code.packed_gate
    monkeypatch.setattr(code, "packed_gate", lambda k, n, options: right(k, n, replace(options, debug=False)))
    with device(name, debug=True) as driver:
        divisor, y = sg.field(sg.i32, 1500), sg.field(sg.i32, 1500)
        kernel = form(divisor, y)
        for zeros in ([700], [], [0, 1, 128, 1499]):
            values, content = np.ones(1500, np.int32), np.where(np.arange(1500) % 3, 0, 5).astype(np.int32)
            values[zeros], content[zeros] = 0, 5
            divisor.from_numpy(values)
            y.from_numpy(content)
            if zeros:
                with pytest.raises(sg.DivisionByZero):
                    kernel()
            else:
                kernel()
                np.testing.assert_array_equal(y.to_numpy(), 100 * content)
        assert {entry for entry, *_ in driver.launches} == {"k_packed_0"}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_list_is_made_by_all_threads_where_a_gate_fails(name: str) -> None:
    with device(name, debug=True, default_fp=sg.f64) as driver:
        gate, place = sg.field(sg.i32, 900), sg.field(sg.i32, 900)
        x, y = (sg.field(sg.f64, 900, needs_grad=True) for _ in range(2))

        @sg.kernel
        def k() -> None:
            for i in place:
                if gate[place[i]] > 0:
                    v = x[i]
                    for _ in range(3):
                        v = sg.sin(v)
                    y[i] = v

        passes = chosen(900, 0.1)
        x.fill(0.0)
        gate.from_numpy(passes.astype(np.int32))
        for last in (899, 900, 899):
            where = np.arange(900, dtype=np.int32)
            where[-1] = last
            place.from_numpy(where)
            x.grad.fill(0.0)
            y.grad.fill(1.0)
            if last == 900:
                with pytest.raises(sg.OutOfBounds):
                    k.grad()
            else:
                k.grad()
                np.testing.assert_array_equal(x.grad.to_numpy(), passes)
        assert "k_grad_select_0" in {entry for entry, *_ in driver.launches}
