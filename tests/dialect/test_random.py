"""Random numbers of the dialect: how they are distributed, and gradients beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random_and_randn(dtype) -> None:
    kind = getattr(sg, dtype)
    u, g, j = sg.field(kind, 4000), sg.field(kind, 4000), sg.field(sg.i32, 4000)

    @sg.kernel
    def k():
        for i in u:
            u[i] = sg.random(kind)
            g[i] = sg.randn(kind)
            j[i] = sg.random(sg.i32)

    k()
    a, b = u.to_numpy(), g.to_numpy()
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.02
    assert np.isfinite(b).all() and abs(b.mean()) < 0.06 and abs(b.std() - 1) < 0.05
    assert abs((np.abs(b) < 1).mean() - math.erf(math.sqrt(0.5))) < 0.03
    assert len(np.unique(j.to_numpy())) > 3990


def test_gradient_beside_random_numbers() -> None:
    x, y, loss = sg.field(sg.f64, 8, needs_grad=True), sg.field(sg.f64, 8), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            noise = sg.randn()
            y[i] = noise
            loss[None] += noise * x[i] ** 2

    x.fill(1.5)
    with sg.ad.Tape(loss):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), 3.0 * y.to_numpy(), rtol=1e-14)
