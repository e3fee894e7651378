"""Check functions of the kernel language in f64: values against NumPy, gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import stackgrad as sg

STEP = 1e-6


def field_of(value: Any) -> Any:
    """Return a field of one element with a gradient that holds this number, vector or matrix."""
    data = np.asarray(value, float)
    makers: dict[int, Callable[[], Any]] = {
        0: lambda: sg.field(sg.f64, (1,), needs_grad=True),
        1: lambda: sg.Vector.field(*data.shape, sg.f64, shape=(1,), needs_grad=True),
        2: lambda: sg.Matrix.field(*data.shape, sg.f64, shape=(1,), needs_grad=True),
    }
    made = makers[data.ndim]()
    made.from_numpy(data[None])
    return made


def launcher(f: Any, a: Sequence[Any], o: Sequence[Any]) -> Any:
    """Return a kernel that stores the results of `f` to the fields `o`."""
    x = a[0]
    y = a[1] if len(a) > 1 else None
    z = a[2] if len(a) > 2 else None
    p = o[0]
    q = o[1] if len(o) > 1 else None
    r = o[2] if len(o) > 2 else None

    @sg.kernel
    def one():
        for i in range(1):
            if sg.static(z is not None):
                p[i] = f(x[i], y[i], z[i])
            elif sg.static(y is not None):
                p[i] = f(x[i], y[i])
            else:
                p[i] = f(x[i])

    @sg.kernel
    def two():
        for i in range(1):
            p[i], q[i] = f(x[i])

    @sg.kernel
    def three():
        for i in range(1):
            p[i], q[i], r[i] = f(x[i])

    return (one, two, three)[len(o) - 1]


def check_function(
    f: Any, inputs: Sequence[Any], expected: Any, rtol: float = 1e-12, gradient: float | None = 1e-6
) -> None:
    """Assert that f(*inputs) is `expected` (a tuple for several results), and check its gradient.

    `gradient` is the relative tolerance of the gradient; None to check values only.
    """
    results = expected if isinstance(expected, tuple) else (expected,)
    a = [field_of(value) for value in inputs]
    o = [field_of(np.zeros_like(np.asarray(value, float))) for value in results]
    k = launcher(f, a, o)
    k()
    for field, value in zip(o, results):
        np.testing.assert_allclose(field.to_numpy()[0], value, rtol=rtol, atol=rtol)
    if gradient is not None:
        check_gradient(k, a, o, gradient)


def check_gradient(k: Any, a: Sequence[Any], o: Sequence[Any], rtol: float) -> None:
    """Compare reverse mode with central differences, for a random combination of the results."""
    rng = np.random.default_rng(7)
    seeds = [rng.normal(size=field.to_numpy().shape) for field in o]

    def value() -> float:
        k()
        return sum(float((seed * field.to_numpy()).sum()) for seed, field in zip(seeds, o))

    for field, seed in zip(o, seeds):
        field.grad.from_numpy(seed)
    for field in a:
        field.grad.fill(0.0)
    k.grad()
    found = [field.grad.to_numpy() for field in a]
    for field, gradient in zip(a, found):
        base = field.to_numpy()
        for index in np.ndindex(base.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = base.copy()
                moved[index] += sign * STEP
                field.from_numpy(moved)
                ends.append(value())
            field.from_numpy(base)
            numeric = (ends[0] - ends[1]) / (2 * STEP)
            np.testing.assert_allclose(gradient[index], numeric, rtol=rtol, atol=1e-8)
