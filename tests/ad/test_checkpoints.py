"""Loops with `sg.loop_config(checkpoint=k)` keep the state every k trips, and give the gradients that they gave before.

The reference executes both ways with the same operations in the same order, so that gradients agree in every bit there.
Other backends may round a copy of a loop otherwise; fuzzers judge them with the policy `checkpoints`.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ad.policies import set_default
from stackgrad.compiler.errors import HintWarning

TRIPS = (0, 1, 2, 3, 4, 5, 8, 9, 33)


class Fields:
    """These arrays are what the kernels of this file work on, with an element for each number of trips."""

    def __init__(self, dtype: object) -> None:
        count = len(TRIPS)
        self.x = sg.field(dtype, count, needs_grad=True)
        self.y = sg.field(dtype, count, needs_grad=True)
        self.a = sg.field(dtype, (count, 64), needs_grad=True)
        self.n = sg.field(sg.i32, count)
        self.x.from_numpy(np.linspace(0.1, 0.9, count))
        self.a.from_numpy(np.linspace(-0.5, 0.7, count * 64).reshape(count, 64))
        self.n.from_numpy(np.array(TRIPS, np.int32))

    def gradients(self, kernel: Callable[[], None]) -> list[np.ndarray]:
        """Return the gradients of x and a after two launches of a kernel and of its gradient."""
        for one in (self.x, self.a):
            one.grad.fill(0.25)
        for _ in range(2):
            kernel()
            self.y.grad.from_numpy(np.linspace(1.0, 2.0, len(TRIPS)))
            kernel.grad()
        return [self.x.grad.to_numpy(), self.a.grad.to_numpy()]


def carried(f: Fields, k: int | None) -> Callable[[], None]:
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            w = 1.0
            sg.loop_config(checkpoint=k)
            for t in range(n[i]):
                v = 0.95 * sg.sin(v) * w + a[i, t] * v
                w = w * 0.5 + v * v * 0.1
            y[i] = v + w

    return run


def nested(f: Fields, k: int | None) -> Callable[[], None]:
    """Loops inside have trips by arrays and by the index, and branches by arrays."""
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=k)
            for t in range(n[i]):
                for s in range(n[t % 4] + t % 2):
                    v = sg.sin(v + a[i, s])
                if a[i, t] > 0.0:
                    v = v * v + a[i, t]
            y[i] = v

    return run


def again(f: Fields, k: int | None) -> Callable[[], None]:
    """Two loops change the same locals, and statements behind each of them do as well."""
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            c = 2.0
            sg.loop_config(checkpoint=k)
            for _ in range(n[i]):
                v = sg.sin(v * c)
            c = v * 0.5
            v = v + a[i, 0]
            sg.loop_config(checkpoint=k)
            for _ in range(n[i] // 2):
                v = sg.cos(v * c)
                c = c * v
            v = v * v
            y[i] = v * c

    return run


def backwards(f: Fields, k: int | None) -> Callable[[], None]:
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=k)
            for t in reversed(range(n[i])):
                v = sg.sin(v) * a[i, t] + v * 0.1
            y[i] = v

    return run


def strides(f: Fields, k: int | None) -> Callable[[], None]:
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=k)
            for t in range(1, n[i], 3):
                v = sg.sin(v) * a[i, t] + v * 0.1
            sg.loop_config(checkpoint=k)
            for t in range(n[i], 0, -2):
                v = sg.sin(v) * a[i, t] + v * 0.1
            y[i] = v

    return run


def last_indices(f: Fields, k: int | None) -> Callable[[], None]:
    """The end of the range is the greatest number of its type, so that the end of a segment lies beyond."""
    x, y, a, n = f.x, f.y, f.a, f.n

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=k)
            for t in range(2147483647 - n[i], 2147483647):
                v = sg.sin(v) * a[i, 2147483646 - t] + v * 0.1
            y[i] = v

    return run


KERNELS = [carried, nested, again, backwards, strides, last_indices]


@pytest.mark.parametrize("made", KERNELS)
def test_bits_are_the_same(made: Callable[[Fields, int | None], Callable[[], None]]) -> None:
    for dtype in (sg.f32, sg.f64):
        sg.init(arch=sg.reference, default_fp=dtype)
        f = Fields(dtype)
        plain = f.gradients(made(f, None))
        assert np.isfinite(plain[0]).all() and np.ptp(plain[0]) > 0
        with warnings.catch_warnings():
            warnings.simplefilter("error", HintWarning)
            for k in (2, 3, 8, 1000):
                for there, here in zip(f.gradients(made(f, k)), plain):
                    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("made", KERNELS)
def test_native_code_agrees(made: Callable[[Fields, int | None], Callable[[], None]]) -> None:
    """Two ways to round a sum of few terms differ by few roundings of the largest gradient."""
    found = []
    for arch in (sg.reference, sg.cpu):
        sg.init(arch=arch, default_fp=sg.f64)
        f = Fields(sg.f64)
        found.append(f.gradients(made(f, 3)))
    for there, here in zip(*found):
        np.testing.assert_allclose(there, here, rtol=0, atol=2000 * 2.0**-53 * np.abs(here).max())


def test_bytes_are_those_of_states_and_of_one_segment() -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, 4, needs_grad=True)

    def bytes_of(k: int | None) -> int:
        @sg.kernel
        def run(trips: sg.i32):
            for i in x:
                v = x[i]
                sg.loop_config(checkpoint=k)
                for _ in range(trips):
                    v = 0.9 * sg.sin(v)
                y[i] = v

        run(10_000)
        run.grad(10_000)
        assert run.stats().countings == 0
        return run.stats().bytes["real"]

    assert bytes_of(None) == 4 * 8 * 10_000
    assert bytes_of(100) == 4 * 8 * (100 + 100)
    assert bytes_of(64) == 4 * 8 * (157 + 64)


@pytest.mark.parametrize("made", KERNELS)
def test_the_classic_lowering_has_none(made: Callable[[Fields, int | None], Callable[[], None]]) -> None:
    before = set_default("classic")
    try:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        f = Fields(sg.f64)
        for there, here in zip(f.gradients(made(f, 3)), f.gradients(made(f, None))):
            np.testing.assert_array_equal(there, here)
    finally:
        set_default(before)


PROGRAM = """
import stackgrad as sg
sg.init(arch=sg.cpu)
x = sg.field(sg.f32, 4, needs_grad=True)
y = sg.field(sg.f32, 4, needs_grad=True)

@sg.kernel
def run():
    for i in x:
        velocity = x[i]
        sg.loop_config(checkpoint=8)
        for _ in range(64):
            velocity = sg.sin(velocity)
        y[i] = velocity

run()
run.grad()
"""


def test_explain_tells_of_states(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "stackgrad", "explain", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "the loop has checkpoints: values between two of them are made again" in done.stdout
    assert "each segment of the loop, as it begins" in done.stdout
