"""The gradient through every kind of argument at once, against central differences in f64."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import stackgrad as sg

STEP = 1e-6


@dataclasses.dataclass(frozen=True)
class Parameters:
    a: sg.types.ndarray()  # type: ignore[valid-type]
    w: sg.types.vector(2, sg.f64)  # type: ignore[valid-type]
    k: sg.f64  # type: ignore[valid-type]


@sg.data_oriented
class Model:
    """x is captured through the object, `a` is an ndarray of a dataclass, `t` a template, `times` a number."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.x = sg.Vector.field(2, sg.f64, n, needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.a = sg.ndarray(sg.f64, n, needs_grad=True)
        self.t = sg.field(sg.f64, n, needs_grad=True)

    @sg.func
    def activation(self, v):  # type: ignore[no-untyped-def]
        return sg.tanh(v) * self.n

    @sg.kernel
    def run(self, p: Parameters, t: sg.template(), times: sg.i32) -> sg.f64:  # type: ignore[valid-type]
        for i in self.x:
            v = self.x[i]
            for _ in range(times):
                v = p.k * self.activation(v.dot(p.w)) * p.w + t[i] * v
            self.loss[None] += v.norm_sqr() * p.a[i]
        return self.loss[None]

    def value(self, values: dict[str, np.ndarray], times: int) -> float:
        self.write(values)
        self.loss.fill(0)
        made: float = self.run(Parameters(self.a, sg.Vector([0.3, -0.7]), 0.4), self.t, times)
        return made

    def write(self, values: dict[str, np.ndarray]) -> None:
        for name, value in values.items():
            getattr(self, name).from_numpy(value)

    def gradient(self, values: dict[str, np.ndarray], times: int) -> dict[str, np.ndarray]:
        self.write(values)
        self.a.grad.fill(0)
        with sg.ad.Tape(self.loss):
            self.run(Parameters(self.a, sg.Vector([0.3, -0.7]), 0.4), self.t, times)
        return {name: getattr(self, name).grad.to_numpy() for name in values}


@pytest.mark.parametrize("times", [0, 1, 4])
def test_all_kinds_of_arguments(times: int) -> None:
    rng = np.random.default_rng(times)
    model = Model(3)
    values = {"x": rng.normal(size=(3, 2)), "a": rng.normal(size=3), "t": 0.5 * rng.normal(size=3)}
    found = model.gradient(values, times)
    for name, value in values.items():
        for place in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = {key: content.copy() for key, content in values.items()}
                moved[name][place] += sign * STEP
                sides.append(model.value(moved, times))
            assert found[name][place] == pytest.approx((sides[0] - sides[1]) / (2 * STEP), rel=1e-7, abs=1e-8)
