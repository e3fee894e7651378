"""Test that forward, grad and counting kernels compute the same bits where bits decide a branch."""

from __future__ import annotations

import numpy as np
import stackgrad as sg


def real(values):
    field = sg.field(sg.f64, shape=np.shape(values), needs_grad=True)
    field.from_numpy(np.asarray(values, np.float64))
    return field


def test_no_winner_of_an_extreme_is_lost():
    """u is used twice in the kernel and once in its gradient, where the sum could swallow the product."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    rng = np.random.default_rng(1)
    x, a, b = (real(rng.normal(size=4096)) for _ in range(3))
    z, top = real(np.zeros(4096)), real(np.full(512, -10.0))

    @sg.kernel
    def run():
        for i in x:
            u = x[i] * a[i]
            z[i] = u
            sg.atomic_max(top[i % 512], u + b[i])

    run()
    top.grad.fill(1.0)
    run.grad()
    assert b.grad.to_numpy().sum() == 512.0
    assert not top.grad.to_numpy().any()


def test_no_winner_of_an_extreme_is_lost_to_constant_folding():
    """The gradient knows v and could compute tanh v beforehand; the kernel computes it in a register."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    top = real(np.full(64, 10.0))

    @sg.kernel
    def run():
        for i in top:
            v = 0.99
            sg.atomic_min(top[i], sg.tanh(v))

    run()
    top.grad.fill(1.0)
    run.grad()
    assert not top.grad.to_numpy().any()


def test_depths_of_chaotic_loops():
    """A tent map: one rounding more or less changes the number of rounds. The gradient pushes u, which keeps it."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    rng = np.random.default_rng(1)
    x, y = real([0.5]), real([0.0])

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            total = 0.0
            while v > 0.02:
                u = 1.9937 * v
                total += sg.sin(u)
                v = 1.0 - sg.abs(u - 1.0)
            y[i] = total

    for _ in range(30):
        x.from_numpy(rng.uniform(0.1, 0.9, 1))
        run()
        y.grad.fill(1.0)
        run.grad()
