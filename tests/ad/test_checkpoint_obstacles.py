"""Loops that cannot have checkpoints keep the values of all trips, give the same gradient, and say why."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.errors import HintWarning, KernelTypeError


def early(x: object, y: object) -> Callable[[], None]:
    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=4)
            for _ in range(9):
                v = sg.sin(v)
                if v < 0.1:
                    break
            y[i] = v

    return run


def inner(x: object, y: object) -> Callable[[], None]:
    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(3):
                sg.loop_config(checkpoint=4)
                for _ in range(9):
                    v = sg.sin(v)
            y[i] = v

    return run


def of_vectors(x: object, y: object) -> Callable[[], None]:
    @sg.kernel
    def run():
        for i in x:
            v = sg.Vector([x[i]] * 40)
            sg.loop_config(checkpoint=4)
            for t in range(9):
                v[t % 3] = sg.sin(v[(t + 1) % 3])
            y[i] = v[0]

    return run


def before_a_change(x: object, y: object) -> Callable[[], None]:
    """A second sweep of the loop would find what the statement behind it has written."""

    @sg.kernel
    def run():
        for i in x:
            v = sg.Vector([x[i]] * 40)
            w = 0.5
            sg.loop_config(checkpoint=4)
            for t in range(9):
                w = sg.sin(w + v[t])
            for t in range(9):
                v[t] = 100.0
            y[i] = w + v[4]

    return run


def deciding(x: object, y: object) -> Callable[[], None]:
    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=4)
            for _ in range(9):
                for _ in range(sg.i32(v * 5.0)):
                    v = sg.sin(v)
            y[i] = v

    return run


def drawing(x: object, y: object) -> Callable[[], None]:
    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            sg.loop_config(checkpoint=4)
            for _ in range(9):
                v = sg.sin(v) + 0.1 * v * sg.random()
            y[i] = v

    return run


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (drawing, "it draws random numbers, which come in the order of execution"),
        (early, "it may end early"),
        (inner, "it stands inside of another loop or branch"),
        (of_vectors, "it changes a vector or an array of its iteration, or reads one that changes later"),
        (before_a_change, "it changes a vector or an array of its iteration, or reads one that changes later"),
        (deciding, "what it computes decides how many values one of its trips saves"),
    ],
)
def test_a_loop_that_cannot_have_checkpoints_says_why(
    made: Callable[[object, object], Callable[[], None]], reason: str
) -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, 4, needs_grad=True)
    x.fill(0.7)
    run = made(x, y)
    run()
    y.grad.fill(1.0)
    with pytest.warns(HintWarning, match=rf"test_checkpoint_obstacles.py:\d+: .*'run'.*, because {reason}"):
        run.grad()
    assert np.abs(x.grad.to_numpy()).min() > 0


def test_a_copy_of_a_tape_is_no_state() -> None:
    """The forward sweep writes the copy, as the kernel wrote the array, and a second sweep would find it changed."""

    def taped(k: int | None) -> list[np.ndarray]:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x, y = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, 4, needs_grad=True)
        loss = sg.field(sg.f64, (), needs_grad=True)
        x.from_numpy(np.linspace(0.1, 0.9, 4))

        @sg.kernel
        def run():
            for i in x:
                v = 0.3
                sg.loop_config(checkpoint=k)
                for _ in range(9):
                    v = sg.sin(v) + x[i]
                    x[i] = x[i] * x[i] * 0.5 + v * 0.1
                y[i] = v

        @sg.kernel
        def total():
            for i in y:
                loss[None] += y[i] * y[i]

        with sg.ad.Tape(loss):
            run()
            total()
        return [x.grad.to_numpy()]

    plain = taped(None)
    with pytest.warns(HintWarning, match="because it uses an array of which the tape keeps a copy, and which changes"):
        np.testing.assert_array_equal(taped(4), plain)


def test_what_changes_behind_the_loop_under_a_tape() -> None:
    def taped(k: int | None) -> np.ndarray:
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x, loss = sg.field(sg.f64, 4, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
        x.from_numpy(np.linspace(0.1, 0.9, 4))

        @sg.kernel
        def run():
            for i in x:
                v = 0.3
                sg.loop_config(checkpoint=k)
                for _ in range(9):
                    v = sg.sin(v + x[i])
                x[i] = v * v

        @sg.kernel
        def total():
            for i in x:
                loss[None] += x[i] * x[i]

        with sg.ad.Tape(loss):
            run()
            total()
        return x.grad.to_numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HintWarning)
        np.testing.assert_array_equal(taped(4), taped(None))


@pytest.mark.parametrize("wrong", [1, -3, True, 2.5, "many"])
def test_segments_have_at_least_two_trips(wrong: object) -> None:
    sg.init(arch=sg.reference)
    x = sg.field(sg.f32, 4)

    @sg.kernel
    def run():
        for i in x:
            sg.loop_config(checkpoint=wrong)
            for _ in range(9):
                x[i] += 1.0

    with pytest.raises(KernelTypeError, match="the number of trips between two checkpoints, an integer of at least 2"):
        run()
