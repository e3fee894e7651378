"""Start backends for kernels whose result depends on the order of iterations, and compare their results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import stackgrad as sg
from stackgrad.reference.backend import ReferenceBackend
from stackgrad.reference.order import Order
from stackgrad.runtime.session import RUNTIME

MACHINES = ("reference", "cpu", "changing")
"""changing: the reference, whose iterations run in another order in each task of each launch."""

SIZES = (0, 1, 2, 3, 40)


def start(machine: str, fp=sg.f64, **options) -> None:
    """Start the runtime on a backend, or on the reference with changing orders of iterations."""
    sg.init(arch="reference" if machine == "changing" else machine, default_fp=fp, **options)
    if machine == "changing":
        RUNTIME._backend = ReferenceBackend(changing(11))


def changing(seed: int) -> Order:
    """Return an order of single iterations that is different for each task."""
    random = np.random.default_rng(seed)

    def chunks(total: int, width: int) -> Iterator[tuple[int, int]]:
        for start in random.permutation(total):
            yield int(start), int(start) + 1

    return Order("changing", chunks)


def values(count: int, seed: int = 0) -> np.ndarray:
    """Return different numbers that single precision represents exactly."""
    spread = np.random.default_rng(seed).permutation(count) / max(count, 1)
    return np.asarray(np.asarray(0.4 + spread, np.float32), np.float64)


def field(data: np.ndarray | float, fp=None, grad: bool = True):
    """Return a field with these contents."""
    data = np.asarray(data)
    made = sg.field(fp or sg.f64, data.shape, needs_grad=grad)
    made.from_numpy(data.astype((fp or sg.f64).dtype))
    return made


def integers(data: np.ndarray | int):
    """Return a field of i32 with these contents."""
    data = np.asarray(data, np.int32)
    made = sg.field(sg.i32, data.shape)
    made.from_numpy(data)
    return made


def weigher(y, w, loss):
    """Return a kernel that adds <w, y> to the loss."""

    @sg.kernel
    def weigh():
        for i in y:
            loss[None] += w[i] * y[i]

    return weigh


def close(found, expected, fp=sg.f64) -> None:
    """Assert that arrays agree within the rounding of the type, relative to the largest magnitude."""
    found = found.grad.to_numpy() if hasattr(found, "grad") else found
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, atol=(1e-12 if fp is sg.f64 else 1e-5) * size, rtol=0)
