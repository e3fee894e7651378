"""Kernels over boxes with axes of one place give the values, gradients and random numbers of all other boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg

BOXES = [(40, 1), (1, 40), (40, 1, 3), (1, 1), (1, 40, 1), (40, 3), (40, 9)]


def _squares(box: tuple[int, ...], is_known: bool) -> Any:
    """Return a kernel y = (x / 8 + 7 / 8) ** 2 * (1 + sum of the place), and x and y.

    Args:
        box: The shape of x and y.
        is_known: True if the compiler knows the box; otherwise a launch reads it from y.
    """
    x, y = (sg.field(sg.f64, box, needs_grad=True) for _ in range(2))
    domain = sg.ndrange(*box) if is_known else y

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        for place in sg.grouped(domain):
            v = x[place]
            for _ in range(3):
                v = v * 0.5 + 0.5
            y[place] = v * v * (place.sum() + 1)

    return run, x, y


@pytest.mark.rotating
@pytest.mark.parametrize("is_known", [False, True], ids=["launch", "known"])
@pytest.mark.parametrize("box", BOXES)
def test_values_and_gradients(fresh_runtime: None, box: tuple[int, ...], is_known: bool) -> None:
    """All numbers are multiples of 2**-6 below 2**20, so that nothing is rounded."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    run, x, y = _squares(box, is_known)
    given = np.arange(int(np.prod(box)), dtype=float).reshape(box)
    x.from_numpy(given)
    run()
    y.grad.fill(1.0)
    run.grad()
    inner, factor = given / 8 + 7 / 8, np.indices(box).sum(0) + 1
    assert np.array_equal(y.to_numpy(), inner**2 * factor)
    assert np.array_equal(x.grad.to_numpy(), inner / 4 * factor)


def test_random_numbers_are_those_of_the_whole_box(fresh_runtime: None) -> None:
    found = []
    for width in (1, 2):
        sg.init(arch=sg.cpu, random_seed=7)
        x = sg.field(sg.f32, (64 // width, width))

        @sg.kernel
        def draw():  # type: ignore[no-untyped-def]
            for i, j in sg.ndrange(64 // width, width):  # noqa: B023 - launched before the next round
                x[i, j] = sg.random()  # noqa: B023

        draw()
        found.append(x.to_numpy().ravel())
    assert np.array_equal(*found)
