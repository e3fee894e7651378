"""`sg.init(deterministic=True)`: the same bits in every run, and in whatever order threads come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from stackgrad.backends import registry
from stackgrad.backends.cuda.backend import CudaBackend
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver


class Program:
    """Represent a program of sums of numbers of very different size, and their gradients.

    Sums go into one element, or into one of a few elements that data chooses; some have gated iterations with history.
    """

    def __init__(self, size: int) -> None:
        draw = np.random.default_rng(7)
        x = sg.field(sg.f32, size, needs_grad=True)
        w, loss = sg.field(sg.f32, 3, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)
        bins, to, deep = sg.field(sg.f32, 5, needs_grad=True), sg.field(sg.i32, size), sg.field(sg.i32, size)
        self.values = (draw.normal(size=size) * 10.0 ** draw.integers(-4, 5, size)).astype(np.float32)
        to.from_numpy(draw.integers(0, 5, size).astype(np.int32))
        deep.from_numpy(np.where(draw.random(size) < 0.1, draw.integers(1, 6, size), 0).astype(np.int32))
        self.x, self.w, self.loss, self.bins = x, w, loss, bins

        @sg.kernel
        def reduce():
            for i in range(size):
                loss[None] += x[i] * w[i % 3]
            for i in range(size):
                bins[to[i]] += x[i] * w[1]
            for i in range(size):
                if deep[i] > 0:
                    v = x[i]
                    for _ in range(deep[i]):
                        v = sg.sin(v) * 1.5 + w[2]
                    loss[None] += v * 1e3

        self.reduce: Any = reduce

    def run(self) -> bytes:
        """Return all results as bytes."""
        for field, value in ((self.w, 0.5), (self.loss, 0.0), (self.bins, 0.0)):
            field.fill(value)
            field.grad.fill(1.0)
        self.x.from_numpy(self.values)
        self.x.grad.fill(0.0)
        self.reduce()
        self.reduce.grad()
        results = self.loss, self.bins, self.x.grad, self.w.grad
        return b"".join(np.ascontiguousarray(field.to_numpy()).tobytes() for field in results)


@pytest.mark.cuda
@pytest.mark.parametrize("size", [1000, 300_000])
def test_twenty_runs_give_the_same_bits(size: int) -> None:
    sg.init(arch=sg.cuda, deterministic=True)
    program = Program(size)
    assert len({program.run() for _ in range(20)}) == 1
    sg.reset()


def on_emulator(backward: bool, monkeypatch: pytest.MonkeyPatch, **options: Any) -> bytes:
    with monkeypatch.context() as patch:
        patch.setitem(registry._instances, "cuda", CudaBackend(EmulatedDriver(backward=backward)))
        sg.init(arch=sg.cuda, **options)
        found = Program(600).run()
        sg.reset()
    return found


def test_the_order_of_threads_shows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    forth, back = (on_emulator(backward, monkeypatch, deterministic=True) for backward in (False, True))
    assert forth == back


def test_it_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    forth, back = (on_emulator(backward, monkeypatch) for backward in (False, True))
    assert forth != back


def test_twenty_runs_on_the_emulator() -> None:
    with runtime(deterministic=True):
        program = Program(200)
        assert len({program.run() for _ in range(20)}) == 1
