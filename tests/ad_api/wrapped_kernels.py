"""Define kernels that tests wrap as functions of other libraries."""

from __future__ import annotations

import stackgrad as sg


@sg.kernel
def recurrence(x: sg.types.ndarray(ndim=1), w: sg.types.ndarray(ndim=1), n: sg.i32, y: sg.types.ndarray(ndim=1)):
    """Compute y = sin(w_k sin(w_{k-1} ... x))."""
    for i in range(x.shape[0]):
        v = x[i]
        for k in range(n):
            v = sg.sin(v * w[k])
        y[i] = v


@sg.kernel
def gather(
    x: sg.types.ndarray(ndim=1),
    at: sg.types.ndarray(dtype=sg.i32, ndim=1),
    y: sg.types.ndarray(ndim=1),
    z: sg.types.ndarray(ndim=2),
):
    """Compute y = x[at]^2 and z = [3 x[at], 1]."""
    for i in range(at.shape[0]):
        y[i] = x[at[i]] ** 2
        z[i, 0] = x[at[i]] * 3
        z[i, 1] = 1.0


@sg.kernel
def noise(x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1)):
    """Store y = x times a random number."""
    for i in range(x.shape[0]):
        y[i] = x[i] * sg.random()


@sg.kernel
def in_place(x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1)):
    """Store to an argument, which a wrapped kernel must not do."""
    for i in range(x.shape[0]):
        y[i] = x[i]
        x[i] = 0.0


@sg.kernel
def numbers(n: sg.i32):
    """Compute with scalar arguments alone, without arrays."""
    for i in range(n):
        print(i)


@sg.data_oriented
class Scaled:
    """Compute y = x * factor by a method; `factor` is a field of the object."""

    def __init__(self, factor: float) -> None:
        self.factor = sg.field(sg.f64, (), needs_grad=True)
        self.factor[None] = factor

    @sg.kernel
    def apply(self, x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1)):
        for i in range(x.shape[0]):
            y[i] = x[i] * self.factor[None]


@sg.kernel
def many_shares(x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1)):
    """Compute y[0] as a sum of 10,000 terms x[0] / 64; a gradient in f16 would stop growing."""
    for _ in range(10_000):
        y[0] += sg.cast(x[0] * sg.cast(0.015625, sg.f16), sg.f32)
