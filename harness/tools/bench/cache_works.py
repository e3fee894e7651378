"""This module contains benchmarks whose arrays fit in the cache, so that they measure the code around each access.

The rules of works.py hold in this module too, and its works enter the table of works.py.
"""

# mypy: disable-error-code="valid-type, index"
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from .works import TimedWork, check_gradient, integer_field, synchronous_call, work
else:  # in the process of a library, which imports files
    from works import TimedWork, check_gradient, integer_field, synchronous_call, work


def _both(ti: Any, make: Callable[[Any], tuple[Any, Any, Any, np.ndarray]], what: str) -> dict[str, TimedWork]:
    """Return benchmarks of a kernel and of its gradient, in f32 and f64; a wrong gradient raises an error.

    `make` returns for a real type the kernel, its result, its input, and the right gradient.
    """
    found: dict[str, TimedWork] = {}
    for name in ("f32", "f64"):
        kernel, result, source, wanted = make(getattr(ti, name))
        kernel()
        result.grad.from_numpy(np.arange(result.shape[0]).astype(name.replace("f", "float")))
        kernel.grad()
        check_gradient(source.grad.to_numpy(), wanted, what)
        found |= {
            f"{name}, forward": TimedWork(synchronous_call(ti, kernel)),
            f"{name}, grad": TimedWork(synchronous_call(ti, kernel.grad)),
        }
    return found


@work
def gather(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of y[i] = x[index[i]] on 2^14 elements, with indices from an array."""
    size = 1 << 14
    where = np.random.default_rng(3).integers(0, size, size)
    index = integer_field(ti, size, where)

    def make(kind: Any) -> tuple[Any, Any, Any, np.ndarray]:
        x, y = (ti.field(kind, shape=size, needs_grad=True) for _ in range(2))

        @ti.kernel
        def read() -> None:
            for i in range(size):
                y[i] = x[index[i]]

        return read, y, x, np.bincount(where, np.arange(size), size)

    return _both(ti, make, "gather")


@work
def rows(ti: Any) -> dict[str, TimedWork]:
    """Return benchmarks of the sums of the rows of a field of 512 x 512 elements."""
    size = 512

    def make(kind: Any) -> tuple[Any, Any, Any, np.ndarray]:
        a, y = (ti.field(kind, shape=shape, needs_grad=True) for shape in ((size, size), size))

        @ti.kernel
        def total() -> None:
            for i in range(size):
                s = ti.cast(0.0, kind)
                for j in range(size):
                    s += a[i, j]
                y[i] = s

        return total, y, a, np.repeat(np.arange(size)[:, None], size, 1)

    return _both(ti, make, "rows")
