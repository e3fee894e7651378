"""Make fields with random contents, run kernels, and compare kernels with their scalar twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import stackgrad as sg


def real(*shape: int, fp: Any = sg.f64, seed: int = 0, low: float = 0.5, high: float = 1.5) -> Any:
    """Return a field of reals with a gradient and contents between low and high."""
    made = sg.field(fp, shape=shape, needs_grad=True)
    made.from_numpy(content(shape, fp, seed, low, high))
    return made


def vectors(n: int, *shape: int, fp: Any = sg.f64, seed: int = 1, low: float = 0.5, high: float = 1.5) -> Any:
    """Return a field of vectors with a gradient."""
    made = sg.Vector.field(n, fp, shape=shape, needs_grad=True)
    made.from_numpy(content((*shape, n), fp, seed, low, high))
    return made


def matrices(n: int, m: int, *shape: int, fp: Any = sg.f64, seed: int = 2) -> Any:
    """Return a field of matrices with a gradient."""
    made = sg.Matrix.field(n, m, fp, shape=shape, needs_grad=True)
    made.from_numpy(content((*shape, n, m), fp, seed, 0.5, 1.5))
    return made


def content(shape: Sequence[int], fp: Any, seed: int, low: float, high: float) -> np.ndarray:
    """Return random numbers between low and high."""
    return np.random.default_rng(seed).uniform(low, high, tuple(shape)).astype(fp.dtype)


def written(kernel: Callable[[], None], out: Any) -> np.ndarray:
    """Return the contents that a kernel leaves in a field."""
    out.fill(-77.0)
    kernel()
    return out.to_numpy()


def twins(first: Callable[[], None], second: Callable[[], None], loss: Any, inputs: Sequence[Any]) -> None:
    """Assert that both kernels add the same to `loss` and have the same gradient, within two bits."""
    found = [_run(kernel, loss, inputs) for kernel in (first, second)]
    assert all(np.any(grad) for grad in found[0][1:]), "a gradient is zero: the test says nothing"
    precision = 4 * float(np.finfo(loss.dtype.dtype).eps)
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=precision, atol=precision * float(np.abs(other).max()))


def _run(kernel: Any, loss: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    loss[None] = 0.0
    for field in inputs:
        field.grad.fill(0.0)
    kernel()
    value = np.asarray(loss[None])
    loss.grad[None] = 1.0
    kernel.grad()
    return [value, *(field.grad.to_numpy().copy() for field in inputs)]
