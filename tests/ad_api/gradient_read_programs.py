"""Make fields with gradients that are not zero, and kernels that read these gradients, for tests."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import stackgrad as sg

X, G, W = np.array([1.0, 2.0, -3.0]), np.array([3.0, -1.0, 0.5]), np.array([0.5, 4.0, 2.0])


def make_program():
    """Return fields with contents and gradients, and the kernels that most tests launch."""
    x, y, w = (sg.field(sg.f64, shape=3, needs_grad=True, name=name) for name in ("x", "y", "w"))
    loss = sg.field(sg.f64, shape=(), needs_grad=True, name="loss")

    @sg.kernel
    def weigh():
        for i in x:
            y[i] = x[i] * x.grad[i] ** 2

    @sg.kernel
    def total():
        for i in x:
            loss[None] += w[i] * y[i] + x[i] ** 2

    def reset():
        for field, content, gradient in ((x, X, G), (y, 0.0 * X, 0.0 * X), (w, W, 0.0 * X)):
            field.from_numpy(content)
            field.grad.from_numpy(gradient)
        loss[None] = loss.grad[None] = 0.0

    reset()
    return SimpleNamespace(x=x, y=y, w=w, loss=loss, weigh=weigh, total=total, reset=reset)
