"""Gates of every form around work without adstacks: over lists, results are those of a CPU. Estimates are set aside."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from stackgrad.backends.cuda import host_code, sparse

SIZE, STEPS = 400, 12


class Data:
    """gate > 0 in one of eight; the rest is content."""

    def __init__(self) -> None:
        draw = np.random.default_rng(8)
        self.gate, self.n = sg.field(sg.i32, SIZE), sg.field(sg.i32, SIZE)
        self.x, self.y = sg.field(sg.f64, SIZE), sg.field(sg.f64, SIZE)
        self.total, self.most = sg.field(sg.f64, ()), sg.field(sg.i32, 8)
        self.gate.from_numpy((draw.random(SIZE) < 0.125) * draw.integers(1, 9, SIZE).astype(np.int32))
        self.n.from_numpy(draw.integers(0, 20, SIZE).astype(np.int32))
        self.x.from_numpy(draw.normal(size=SIZE))

    def found(self) -> list[np.ndarray]:
        return [array.to_numpy() for array in (self.y, self.total, self.most)]


def by_if(d: Data) -> sg.Kernel:
    gate, x, y = d.gate, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in gate:
            v = x[i]
            if gate[i] > 0:
                for _ in range(STEPS):
                    v = sg.sin(v)
                y[i] = v

    return k


def by_else(d: Data) -> sg.Kernel:
    gate, n, x, y = d.gate, d.n, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in range(SIZE):
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
        for i, j in sg.ndrange((2, 20), 20):
            if gate[i * 20 + j] > 0:
                v = x[i * 20 + j]
                for _ in range(STEPS):
                    v = v * 0.5 + i - j
                y[i * 20 + j] = v

    return k


def of_two_tasks(d: Data) -> sg.Kernel:
    """The second gate is what the first task writes."""
    gate, x, y, total = d.gate, d.x, d.y, d.total

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] > 0:
                v = x[i]
                for _ in range(STEPS):
                    v = sg.sin(v)
                y[i] = v
        for i in y:
            if y[i] > 0.0:
                v = y[i]
                for _ in range(STEPS):
                    v = v * 0.5 + 1.0
                total[None] += v

    return k


def with_draws(d: Data) -> sg.Kernel:
    gate, x, y = d.gate, d.x, d.y

    @sg.kernel
    def k() -> None:
        for i in gate:
            if sg.random(sg.f64) < 0.2:
                v = x[i]
                for _ in range(STEPS):
                    v += sg.random(sg.f64)
                y[i] = v

    return k


FORMS = (by_if, by_else, by_continue, in_two_steps, with_sums, of_two_axes, of_two_tasks, with_draws)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_lists_change_nothing(form: Callable[[Data], sg.Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (host_code, sparse):
        monkeypatch.setattr(module, "START", 0)
    monkeypatch.setattr(sparse, "SCAN", 0)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    data = Data()
    kernel = form(data)
    for _ in range(4):
        kernel()
    want = data.found()
    sg.reset()
    with runtime(default_fp=sg.f64) as (_, driver):
        data = Data()
        kernel = form(data)
        for _ in range(4):
            kernel()
            sg.sync()
        for found, expected in zip(data.found(), want):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        tasks = 2 if form is of_two_tasks else 1
        assert kernel.stats().listings >= 4 * tasks - 1
