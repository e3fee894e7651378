"""The gradient through every kind of argument at once, within its bounds, which hold complex steps too, in f64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import leaves, slopes

W, K = [0.3, -0.7], 0.4
GRADIENTS = {"x": "self_x.grad", "a": "p_a.grad", "t": "t.grad"}


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

    def value(self, times: int) -> None:
        assert self.run(Parameters(self.a, sg.Vector(W), K), self.t, times) == self.loss[None]

    def gradient(self, times: int) -> None:
        with sg.ad.Tape(self.loss):
            self.value(times)


def loss(x: np.ndarray, a: np.ndarray, t: np.ndarray, times: int) -> np.ndarray:
    """The same in NumPy."""
    v = x
    for _ in range(times):
        v = K * len(x) * np.tanh(v @ W)[:, None] * np.array(W) + t[:, None] * v
    return ((v * v).sum(axis=1) * a).sum()


@pytest.mark.parametrize("times", [0, 1, 4])
def test_all_kinds_of_arguments(times: int) -> None:
    rng = np.random.default_rng(times)
    model = Model(3)
    values = {"x": rng.normal(size=(3, 2)), "a": rng.normal(size=3), "t": 0.5 * rng.normal(size=3)}
    for name, value in values.items():
        getattr(model, name).from_numpy(value)
    forms = {
        GRADIENTS[name]: slopes(lambda z, name=name: loss(**{**values, name: z}, times=times), value)
        for name, value in values.items()
    }
    leaves(lambda: model.value(times), {"self_loss": loss(**values, times=times)})
    leaves(lambda: model.gradient(times), forms)
