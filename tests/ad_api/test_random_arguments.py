"""Test that a gradient by hand replays the draws of the last launch with the same numbers on the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg

KINDS = {"ndarray": sg.types.ndarray(), "field": sg.template()}


def made(kind: str) -> Any:
    if kind == "ndarray":
        array = sg.ndarray(sg.f64, 4, needs_grad=True)
    else:
        array = sg.field(sg.f64, 4, needs_grad=True)
    array.fill(1)
    return array


@pytest.mark.parametrize("kind", ["ndarray", "field"])
def test_launches_on_several_arrays(kind: str) -> None:
    @sg.kernel
    def noise(a: KINDS[kind], y: KINDS[kind], s: float):
        for i in range(4):
            v = a[i]
            while sg.random(sg.f64) < 0.5:
                v *= s * sg.random(sg.f64)
            y[i] = v

    pairs = [(made(kind), made(kind), s) for s in (1.0, 1.0, 2.0)]
    for a, y, s in pairs:
        noise(a, y, s)
    values = [y.to_numpy().copy() for _, y, _ in pairs]
    assert len({tuple(v) for v in values}) == 3
    for a, y, s in (pairs[1], pairs[0], pairs[2]):
        y.grad.fill(1)
        noise.grad(a, y, s)
    for (a, _, _), value in zip(pairs, values):
        np.testing.assert_allclose(a.grad.to_numpy(), value)
    with pytest.raises(sg.NotDifferentiable, match="was not launched with these arguments"):
        noise.grad(pairs[0][0], pairs[0][1], 2.0)


def test_a_new_array_object_on_the_same_memory_is_the_same_array() -> None:
    weights, y = np.ones(4), made("ndarray")
    total = sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def scale(w: sg.types.ndarray(), x: sg.types.ndarray()) -> float:
        for i in range(4):
            total[None] += w[i] * x[i] * sg.random(sg.f64)
        return 1.0

    scale(weights[:], y)
    total.grad[None] = 1
    scale.grad(weights[:], y)
    np.testing.assert_allclose(y.grad.to_numpy().sum(), total[None])
