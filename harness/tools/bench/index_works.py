"""This module contains benchmarks of checked indices; with `--peers unchecked` they show the cost of the checks.

The rules of works.py hold: this file imports only NumPy.
"""

# mypy: disable-error-code="valid-type, index"
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from .works import TimedWork, check_gradient, integer_field, real_field, synchronous_call, work
else:  # in the process of a library, which imports files
    from works import TimedWork, check_gradient, integer_field, real_field, synchronous_call, work


def _reals(ti: Any, t: Any, values: np.ndarray) -> Any:
    """Return a field of real type `t` that holds the given values and has a gradient."""
    made = ti.field(t, shape=values.shape, needs_grad=True)
    made.from_numpy(values)
    return made


def _gather(ti: Any, size: int, bits: int) -> dict[str, TimedWork]:
    """Return benchmarks of y[i] = 2 x[idx[i]] for indices in random order."""
    t, kind = (ti.f64, np.float64) if bits == 64 else (ti.f32, np.float32)
    rng = np.random.default_rng(6)
    where = rng.integers(0, size, size)
    x, y = _reals(ti, t, rng.random(size).astype(kind)), _reals(ti, t, np.zeros(size, kind))
    idx = integer_field(ti, size, where)

    @ti.kernel
    def steps() -> None:
        for i in y:
            y[i] = 2.0 * x[idx[i]]

    steps()
    y.grad.from_numpy(np.ones(size, kind))
    steps.grad()
    check_gradient(x.grad.to_numpy(), 2.0 * np.bincount(where, minlength=size), "gather")
    unit = "µs" if size < 1 << 18 else "ms"
    return {
        "forward": TimedWork(synchronous_call(ti, steps), unit),
        "grad": TimedWork(synchronous_call(ti, steps.grad), unit),
    }


@work
def gather_from_memory(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of reads of 2^22 elements of f64 at indices from a field."""
    return _gather(ti, 1 << 22, 64)


@work
def stencil(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of a diffusion step on the interior points of a grid of 1024 x 1024."""
    size = 1024
    x0 = np.random.default_rng(7).random((size, size))
    x, y = real_field(ti, (size, size), x0), real_field(ti, (size, size))

    @ti.kernel
    def steps() -> None:
        for i, j in x:
            if i > 0 and i < size - 1 and j > 0 and j < size - 1:
                y[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    steps()
    y.grad.from_numpy(np.ones((size, size), np.float32))
    steps.grad()
    check_gradient(x.grad.to_numpy()[3:-3, 3], np.ones(size - 6), "stencil")
    return {
        "forward": TimedWork(synchronous_call(ti, steps), "µs"),
        "grad": TimedWork(synchronous_call(ti, steps.grad), "µs"),
    }


@work
def mpm(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks that transfer 2^14 particles to a grid of 128 x 128 and back (2D, quadratic weights)."""
    count, size = 1 << 14, 128
    rng = np.random.default_rng(8)
    p = _reals(ti, ti.f32, (rng.random((count, 2)) * 0.8 + 0.1).astype(np.float32))
    v, out = (_reals(ti, ti.f32, rng.random((count, 2)).astype(np.float32)) for _ in range(2))
    momentum, mass = real_field(ti, (size, size, 2)), real_field(ti, (size, size))

    @ti.kernel
    def scatter() -> None:
        for q in range(count):
            base = ti.Vector([ti.cast(p[q, 0] * size - 0.5, ti.i32), ti.cast(p[q, 1] * size - 0.5, ti.i32)])
            fx = ti.Vector([p[q, 0] * size - base[0], p[q, 1] * size - base[1]])
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            for i, j in ti.static(ti.ndrange(3, 3)):
                weight = w[i][0] * w[j][1]
                mass[base[0] + i, base[1] + j] += weight
                for d in ti.static(range(2)):
                    momentum[base[0] + i, base[1] + j, d] += weight * v[q, d]

    @ti.kernel
    def gather() -> None:
        for q in range(count):
            base = ti.Vector([ti.cast(p[q, 0] * size - 0.5, ti.i32), ti.cast(p[q, 1] * size - 0.5, ti.i32)])
            fx = ti.Vector([p[q, 0] * size - base[0], p[q, 1] * size - base[1]])
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            for d in ti.static(range(2)):
                total = 0.0
                for i, j in ti.static(ti.ndrange(3, 3)):
                    total += w[i][0] * w[j][1] * momentum[base[0] + i, base[1] + j, d]
                out[q, d] = total

    scatter(), gather()
    out.grad.fill(1.0), mass.grad.fill(1.0)
    scatter.grad(), gather.grad()
    check_gradient(momentum.grad.to_numpy().sum()[None], np.array([2.0 * count]), "mpm")
    launches = {"scatter": scatter, "scatter grad": scatter.grad, "gather": gather, "gather grad": gather.grad}
    return {name: TimedWork(synchronous_call(ti, launch), "µs") for name, launch in launches.items()}
