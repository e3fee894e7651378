"""Test the watching of a program: which launches are kept, and that `init` does not end it."""

from __future__ import annotations

import pytest
import stackgrad as sg
from stackgrad.cli.watch import CountingCapture, watching


def _count_up(launches: int) -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x = sg.field(sg.f64, 1, needs_grad=True, name="x")

    @sg.kernel
    def step():
        for i in range(1):
            x[i] += 1.0

    for _ in range(launches):
        step()


def _kept(watch: CountingCapture) -> list[float]:
    return [float(launch.after["x"][0]) for launch in watch.recordings()]


@pytest.mark.parametrize(
    ("limit", "launches", "kept"),
    [
        (1, 9, [1]),
        (2, 1, [1]),
        (2, 3, [1, 2]),
        (2, 9, [1, 8]),
        (3, 9, [1, 2, 8]),
        (3, 3, [1, 2, 3]),
        (20, 5, [1, 2, 3, 4, 5]),
    ],
)
def test_the_first_launches_and_a_later_one(limit: int, launches: int, kept: list[float]) -> None:
    with watching(limit) as watch:
        _count_up(launches)
    assert _kept(watch) == kept
    assert watch.totals["step", "forward"] == launches
    sg.reset()


def test_both_generations_are_seen() -> None:
    with watching(2) as watch:
        _count_up(1)
        _count_up(1)
    assert _kept(watch) == [1, 1] and watch.totals["step", "forward"] == 2
    _count_up(1)
    assert watch.totals["step", "forward"] == 2, "nothing is seen afterwards"
    sg.reset()


def test_a_field_that_was_not_finite_before() -> None:
    with watching(2) as watch:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x = sg.field(sg.f64, 2, needs_grad=True, name="x")

        @sg.kernel
        def double():
            for i in range(2):
                x[i] *= 2.0

        x[1] = float("inf")
        double()
        double()
    texts = [finding.text for finding in watch.findings]
    assert texts == ["infinity value: x holds infinity already before launch 1 of double (forward)"]
    sg.reset()


def test_gradients_that_are_not_finite() -> None:
    with watching(2) as watch:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x, y = (sg.field(sg.f64, (), needs_grad=True, name=name) for name in "xy")

        @sg.kernel
        def root():
            y[None] = sg.sqrt(x[None])

        with sg.ad.Tape(y):
            root()
    found = watch.findings
    assert [(f.kernel, f.array) for f in found] == [("root", "x.grad")] and "infinity" in found[0].text
    sg.reset()
