"""Works whose arrays lie in the cache, so that what code does to reach an element is what it takes; see works.py, whose
rules hold here. They enter its table.
"""

# mypy: disable-error-code="valid-type, index"
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from .works import Timed, agree, synced, whole, work
else:  # in the process of a library, which imports files
    from works import Timed, agree, synced, whole, work


def _both(ti: Any, make: Callable[[Any], tuple[Any, Any, Any, np.ndarray]], what: str) -> dict[str, Timed]:
    """A kernel in f32 and in f64. make: gives it, where its results and its inputs are, and the right gradient."""
    found: dict[str, Timed] = {}
    for name in ("f32", "f64"):
        kernel, result, source, wanted = make(getattr(ti, name))
        kernel()
        result.grad.from_numpy(np.arange(result.shape[0]).astype(name.replace("f", "float")))
        kernel.grad()
        agree(source.grad.to_numpy(), wanted, what)
        found |= {f"{name}, forward": Timed(synced(ti, kernel)), f"{name}, grad": Timed(synced(ti, kernel.grad))}
    return found


@work
def gather(ti: Any) -> dict[str, Timed]:
    """2^14 elements read where an array of indices says."""
    size = 1 << 14
    where = np.random.default_rng(3).integers(0, size, size)
    index = whole(ti, size, where)

    def make(kind: Any) -> tuple[Any, Any, Any, np.ndarray]:
        x, y = (ti.field(kind, shape=size, needs_grad=True) for _ in range(2))

        @ti.kernel
        def read() -> None:
            for i in range(size):
                y[i] = x[index[i]]

        return read, y, x, np.bincount(where, np.arange(size), size)

    return _both(ti, make, "gather")


@work
def rows(ti: Any) -> dict[str, Timed]:
    """Sums of 512 rows of 512 elements."""
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
