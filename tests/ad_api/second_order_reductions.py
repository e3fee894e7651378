"""Define more programs with JAX twins, like second_order_programs: reductions, local arrays, vectors, ndarrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import stackgrad as sg
from second_order_programs import Case, N, X, program, reals


@program
def extremes_and_sums(dtype: Any) -> Case:
    x, top, low, mean, loss = reals(dtype, N, (), (), (), ())

    @sg.kernel
    def find():
        for i in x:
            sg.atomic_max(top[None], sg.sin(x[i]) * x[i])
            sg.atomic_min(low[None], x[i] * x[i] - 0.9 * x[i])
            sg.atomic_add(mean[None], sg.exp(x[i]) / N)

    @sg.kernel
    def total():
        loss[None] = top[None] ** 2 * mean[None] + low[None] ** 3 * mean[None] ** 2

    def start() -> None:
        top.fill(-9.0)
        low.fill(9.0)
        mean.fill(0.0)

    def run() -> None:
        find()
        total()

    def twin(x: Any) -> Any:
        top, low = (jnp.sin(x) * x).max(), (x * x - 0.9 * x).min()
        mean = (jnp.exp(x) / N).sum()
        return top**2 * mean + low**3 * mean**2

    return Case(x, loss, run, twin, start=start)


@program
def a_product(dtype: Any) -> Case:
    x, p, loss = reals(dtype, N, (), ())

    @sg.kernel
    def find():
        for i in x:
            sg.atomic_mul(p[None], x[i] + 0.3 * x[i] * x[i])

    @sg.kernel
    def total():
        loss[None] = p[None] * p[None] + p[None]

    def run() -> None:
        find()
        total()

    def twin(x: Any) -> Any:
        p = (x + 0.3 * x * x).prod() * 1.5
        return p * p + p

    return Case(x, loss, run, twin, start=lambda: p.fill(1.5))


@program
def numbers_of_the_kernel(dtype: Any) -> Case:
    """Return a program with a sum and a maximum in kernel-level locals into which a parallel loop reduces."""
    x, y, loss = reals(dtype, N, N, ())

    @sg.kernel
    def run():
        s = 0.0
        for i in x:
            s += x[i] * x[i]
        for i in x:
            y[i] = x[i] / (1.0 + s)
        for i in y:
            loss[None] += y[i] ** 3 * s

    def twin(x: Any) -> Any:
        s = (x * x).sum()
        return ((x / (1.0 + s)) ** 3 * s).sum()

    return Case(x, loss, run, twin)


@program
def local_array(dtype: Any) -> Case:
    """Return a program with a ring buffer in a local array with dynamic indices."""
    x, loss = reals(dtype, N, ())

    @sg.kernel
    def run():
        for i in x:
            h = sg.Vector([x[i], 0.5 * x[i], x[i] * x[i]])
            for k in range(4 + i):
                h[k % 3] = sg.sin(h[k % 3] + h[(k + 1) % 3] * x[i])
            loss[None] += h[0] * h[1] + h[2]

    def twin(x: Any) -> Any:
        total = 0.0
        for i in range(N):
            h = [x[i], 0.5 * x[i], x[i] * x[i]]
            for k in range(4 + i):
                h[k % 3] = jnp.sin(h[k % 3] + h[(k + 1) % 3] * x[i])
            total = total + h[0] * h[1] + h[2]
        return total

    return Case(x, loss, run, twin)


@program
def springs(dtype: Any) -> Case:
    """Return a program that relaxes a closed chain of springs in place by a few steps, with vectors."""
    x, f = (sg.Vector.field(2, dtype, shape=N, needs_grad=True) for _ in range(2))
    (loss,) = reals(dtype, ())

    @sg.kernel
    def pull():
        for i in x:
            d = x[(i + 1) % N] - x[i]
            length = d.norm()
            f[i] += (length - 0.6) / length * d
            f[(i + 1) % N] -= (length - 0.6) / length * d

    @sg.kernel
    def move():
        for i in x:
            x[i] += 0.3 * f[i]
            f[i] = [0.0, 0.0]

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i].dot(x[(i + 2) % N])

    def run() -> None:
        for _ in range(3):
            pull()
            move()
        total()

    def twin(x: Any) -> Any:
        for _ in range(3):
            d = jnp.roll(x, -1, 0) - x
            length = jnp.sqrt((d * d).sum(1, keepdims=True))
            g = (length - 0.6) / length * d
            x = x + 0.3 * (g - jnp.roll(g, 1, 0))
        return (x * jnp.roll(x, -2, 0)).sum()

    angles = np.arange(N) * 2 * np.pi / N
    return Case(x, loss, run, twin, np.stack([np.cos(angles) + 0.1 * X, np.sin(1.1 * angles)], 1), lambda: f.fill(0.0))


@program
def ndarrays(dtype: Any) -> Case:
    x, y, loss = (sg.ndarray(dtype, shape, needs_grad=True) for shape in (N, N, ()))

    @sg.kernel
    def steps(x: sg.types.ndarray(), y: sg.types.ndarray(), n: sg.i32):
        for i in range(x.shape[0]):
            v = x[i]
            for _ in range(n):
                v = v * v + 0.1 * x[(i + 1) % n]
            y[i] = v

    @sg.kernel
    def total(y: sg.types.ndarray(), loss: sg.types.ndarray()):
        for i in range(y.shape[0]):
            loss[None] += y[i] * y[i]

    def run() -> None:
        steps(x, y, 3)
        total(y, loss)

    def twin(x: Any) -> Any:
        v = x
        near = x[(jnp.arange(N) + 1) % 3]
        for _ in range(3):
            v = v * v + 0.1 * near
        return (v * v).sum()

    return Case(x, loss, run, twin)
