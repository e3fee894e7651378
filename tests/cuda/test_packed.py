"""Test gated tasks without adstacks, which run the passing iterations of each chunk: results are those of a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from grids import DRIVERS, chosen, device
from recorded_support import bounded, forward, memory_of, near
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.selection import packed_gates
from stackgrad.capture import capture
from stackgrad.compiler.ir.nodes import Load
from stackgrad.compiler.ir.walk import walk
from stackgrad.harness.testing.bounds import BoundedResult

SIZES = (0, 1, 2, 3, 31, 127, 128, 129, 1023, 1024, 1025, 2300)
RATES = (0.0, 0.05, 0.5, 1.0)
STEPS = 80


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


@pytest.mark.rotating
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
    """Hold the fields of the kernels; gate > 0 in one of eight iterations."""

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


def of_gates_behind_gates(d: Data) -> sg.Kernel:
    """Return a kernel with nested gates; the inner gate's index is valid only if the outer gate is open."""
    gate, n, x, y, total = d.gate, d.n, d.x, d.y, d.total

    @sg.kernel
    def k() -> None:
        for i in gate:
            place = gate[i] - 1
            w = x[i]
            if place < 0:
                continue
            w += n[place]
            if n[place] > 12 or w < 0.5:
                continue
            v = w
            for _ in range(n[i]):
                v = v * 0.5 + 1.0
            y[i] = v
            total[None] += v

    return k


def with_bounds_of_its_own(d: Data) -> sg.Kernel:
    """Return a kernel whose task writes the array of its own bounds, which the device therefore reads first."""
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
    by_else,
    by_continue,
    in_two_steps,
    with_sums,
    of_two_axes,
    of_nested_gates,
    of_gates_behind_gates,
    with_bounds_of_its_own,
    with_draws,
)


@cache
def launched(form: Callable[[Data], sg.Kernel]) -> BoundedResult:
    """Return the memory, with error bounds, after two launches in a row."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    kernel = form(Data())
    with capture() as recorded:
        kernel()
        kernel()
    sg.reset()
    return bounded(recorded.launches[1], bounded(recorded.launches[0]))


MODES = ({}, {"deterministic": True}, {"precise": True}, {"debug": True})


@pytest.mark.rotating
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


@pytest.mark.parametrize(
    ("form", "steps", "first"),
    [(by_else, 1, ["x", "gate"]), (of_nested_gates, 2, ["gate"]), (of_gates_behind_gates, 2, ["gate", "x"])],
)
def test_all_gates_are_decided(form: Callable[[Data], sg.Kernel], steps: int, first: list[str]) -> None:
    """The first one by what is there for all iterations; with loads of x, whose length only a launch tells."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    gates = packed_gates(form(Data()).ir(), 0, Options())
    assert gates is not None and len(gates.steps) == steps
    read = [[s.array for s in walk(deciding) if isinstance(s, Load)] for deciding, _ in gates.steps]
    assert read[0] == first and all("gate" not in names for names in read[1:])


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
