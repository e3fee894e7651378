"""Values and memory of the lockstep executor: a concrete NumPy half and, where a derivative flows, a JAX half.

Invariant: in every lane and every cell the traced half, where there is one, has the value of the concrete half up to
rounding. Lengths of traced arrays are rounded up by `bucket`, because JAX compiles each operation once per shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

_GATHER = lax.GatherDimensionNumbers((), (0,), (0,))
_SCATTER = lax.ScatterDimensionNumbers((), (0,), (0,))
_FREE, _MANY = -1, -2


class OrderMatters(Exception):
    """Two lanes that run in lockstep touched one cell in a way whose result depends on their order."""


class Pair(NamedTuple):
    """One value in all lanes.

    value: (lanes,) NumPy. trace: (lanes,) JAX float64, or None where no derivative flows.
    """

    value: np.ndarray
    trace: Any = None

    def lifted(self) -> Any:
        """The traced half; a constant where there is none."""
        return jnp.asarray(self.value) if self.trace is None else self.trace


def bucket(length: int) -> int:
    """The least power of 8, at least 8, that holds this many."""
    size = 8
    while size < length:
        size *= 8
    return size


def take(source: Any, index: np.ndarray) -> Any:
    """source[index] of traced (n,) at concrete in-range (m,)."""
    return lax.gather(
        source, index.astype(np.int32)[:, None], _GATHER, (1,), mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )


def blend(where: np.ndarray, new: Pair, old: Pair) -> Pair:
    """`new` in the lanes of the mask, `old` elsewhere."""
    value = np.where(where, new.value, old.value)
    if new.trace is None and old.trace is None:
        return Pair(value)
    return Pair(value, lax.select(where, new.lifted(), old.lifted()))


def permute(source: Pair, index: np.ndarray) -> Pair:
    """Lane i gets the value of lane index[i]."""
    return Pair(source.value[index], None if source.trace is None else take(source.trace, index))


class Cells:
    """Flat memory: an array parameter or a temporary.

    carries: stores keep the traced half; otherwise they drop it, which stops the derivative.
    """

    def __init__(self, content: np.ndarray, carries: bool, trace: Any = None) -> None:
        self.value = content.reshape(-1)
        self.shape = content.shape
        self.carries = carries
        self.trace = trace
        self.forget()

    def forget(self) -> None:
        """Start a group of lanes: no cell has been touched by a lane of it."""
        self._touched: dict[str, np.ndarray] = {}

    def snapshot(self) -> tuple[np.ndarray, Any]:
        return self.value.copy(), self.trace

    def restore(self, saved: tuple[np.ndarray, Any]) -> None:
        self.value[:], self.trace = saved
        self.forget()

    def padded(self) -> np.ndarray:
        """The concrete half at the length of the traced half."""
        out = np.zeros(bucket(self.value.size), self.value.dtype)
        out[: self.value.size] = self.value
        return out

    def _lifted(self) -> Any:
        return jnp.asarray(self.padded()) if self.trace is None else self.trace

    def load(self, index: np.ndarray) -> Pair:
        """Every lane's cell; idle lanes bring any index in range."""
        return Pair(self.value[index], None if self.trace is None else take(self.trace, index))

    def store(self, index: np.ndarray, new: Pair, mask: np.ndarray) -> None:
        """Overwrite the cells of the lanes of the mask; of two lanes at one cell the later wins."""
        lanes = np.flatnonzero(mask)
        before = self._lifted() if self._keeps(new) else None
        owner = np.full(bucket(self.value.size), -1)
        owner[index[lanes]] = lanes
        written = owner >= 0
        if before is not None:
            self.trace = lax.select(written, take(new.lifted(), np.maximum(owner, 0)), before)
        here = written[: self.value.size]
        self.value[here] = new.value[owner[: self.value.size][here]]

    def add(self, index: np.ndarray, new: Pair, mask: np.ndarray) -> None:
        """Add to the cells of the lanes of the mask, in lane order."""
        lanes = np.flatnonzero(mask)
        if self._keeps(new):
            outside = np.where(mask, index, bucket(self.value.size)).astype(np.int32)[:, None]
            mode = lax.GatherScatterMode.FILL_OR_DROP
            self.trace = lax.scatter_add(self._lifted(), outside, new.lifted(), _SCATTER, mode=mode)
        np.add.at(self.value, index[lanes], new.value[lanes])

    def _keeps(self, new: Pair) -> bool:
        return self.carries and (self.trace is not None or new.trace is not None)

    # -- order between lanes --------------------------------------------------------------------------------

    def claim(self, access: str, index: np.ndarray, mask: np.ndarray, once: bool = False) -> None:
        """Note an access by the lanes of the mask; raise OrderMatters unless it commutes with those of other lanes.

        access: 'load', 'store', or the name of an atomic whose old value is not used; accesses of one such kind
        commute with each other, except stores. once: several lanes at one cell are fine within this statement.
        """
        lanes = np.flatnonzero(mask)
        cells = index[lanes]
        exclusive = access == "store"
        for kind, owner in self._touched.items():
            others = (owner[cells] != _FREE) & (owner[cells] != lanes)
            if (exclusive or kind != access) and others.any():
                raise OrderMatters
        owner = self._touched.setdefault(access, np.full(self.value.size, _FREE))
        fresh = owner[cells] == _FREE
        owner[cells[fresh]] = lanes[fresh]
        shared = owner[cells] != lanes
        if exclusive and not once and shared.any():
            raise OrderMatters
        owner[cells[shared]] = _MANY


def ranks(index: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How lanes of the mask queue at their cells: each lane's place (0 first) and its successor (itself if last)."""
    lanes = np.flatnonzero(mask)
    order = lanes[np.argsort(index[lanes], kind="stable")]
    place, successor = np.zeros(mask.size, np.int64), np.arange(mask.size)
    if order.size:
        same = index[order[1:]] == index[order[:-1]]
        starts = np.concatenate([[0], np.flatnonzero(~same) + 1])
        sizes = np.diff(np.concatenate([starts, [order.size]]))
        place[order] = np.arange(order.size) - np.repeat(starts, sizes)
        successor[order[:-1][same]] = order[1:][same]
    return place, successor


Combine = Callable[[Pair, Pair, np.ndarray], Pair]


def reduce_queues(new: Pair, index: np.ndarray, mask: np.ndarray, combine: Combine) -> tuple[Pair, np.ndarray]:
    """Combine the values of lanes at one cell pairwise: log2 steps instead of one a lane.

    Returns the values and the mask of lanes (first of each queue) that hold the combined ones.
    """
    place, successor = ranks(index, mask)
    step = 1
    while np.any(mask & (place >= step)):
        left = mask & (place % (2 * step) == 0) & (place[successor] == place + step)
        new = blend(left, combine(new, permute(new, successor), left), new)
        successor = successor[successor]
        step *= 2
    return new, mask & (place == 0)
