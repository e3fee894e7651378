"""This module represents memory of the lockstep JAX oracle: NumPy values, with JAX copies that carry derivatives.

The JAX half is present only where a derivative flows. Invariant: in every lane and every element the traced (JAX) half
has the value of the concrete (NumPy) half up to rounding. Lengths of traced arrays are rounded up by `bucket`, because
JAX compiles each operation once per shape.
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


class OrderDependence(Exception):
    """Signal that two lanes that run in lockstep touched one element, so that their order decides the result."""


class LaneValue(NamedTuple):
    """Represent one value in all lanes: a NumPy array, and a JAX array if a derivative flows through the value.

    Attributes:
        value: (lanes,) NumPy array.
        trace: (lanes,) JAX float64 array, or None where no derivative flows.
    """

    value: np.ndarray
    trace: Any = None

    def lifted(self) -> Any:
        """Return the JAX array of the value, or its NumPy values as a JAX constant if no derivative flows."""
        return jnp.asarray(self.value) if self.trace is None else self.trace


def bucket(length: int) -> int:
    """Return the padded length of JAX arrays: the least power of 8, from 8 on, that is at least `length`."""
    size = 8
    while size < length:
        size *= 8
    return size


def take(source: Any, index: np.ndarray) -> Any:
    """Return source[index] for a JAX array of shape (n,) and NumPy indices of shape (m,) in range."""
    return lax.gather(
        source, index.astype(np.int32)[:, None], _GATHER, (1,), mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )


def blend(where: np.ndarray, new: LaneValue, old: LaneValue) -> LaneValue:
    """Return `new` in the lanes of the mask and `old` elsewhere."""
    value = np.where(where, new.value, old.value)
    if new.trace is None and old.trace is None:
        return LaneValue(value)
    return LaneValue(value, lax.select(where, new.lifted(), old.lifted()))


def permute(source: LaneValue, index: np.ndarray) -> LaneValue:
    """Return a lane value whose lane i has the value of lane index[i] of `source`."""
    return LaneValue(source.value[index], None if source.trace is None else take(source.trace, index))


class Cells:
    """Represent the memory of an array parameter or a temporary in the JAX oracle: NumPy and JAX values, both flat.

    Attributes:
        value: the concrete half, flat.
        shape: the shape of the array.
        carries: True if stores keep the traced half; otherwise they drop it, which stops the derivative.
        trace: the traced half, or None.
    """

    def __init__(self, content: np.ndarray, carries: bool, trace: Any = None) -> None:
        self.value = content.reshape(-1)
        self.shape = content.shape
        self.carries = carries
        self.trace = trace
        self.forget()

    def forget(self) -> None:
        """Forget the recorded accesses, before a new group of lanes starts."""
        self._touched: dict[str, np.ndarray] = {}

    def snapshot(self) -> tuple[np.ndarray, Any]:
        """Return a copy of the memory: its NumPy values, and its JAX array that carries derivatives."""
        return self.value.copy(), self.trace

    def restore(self, saved: tuple[np.ndarray, Any]) -> None:
        """Restore the memory to the contents that `snapshot` returned, and forget the recorded accesses."""
        self.value[:], self.trace = saved
        self.forget()

    def padded(self) -> np.ndarray:
        """Return the NumPy values, padded with zeros to the bucket length that the JAX array has."""
        out = np.zeros(bucket(self.value.size), self.value.dtype)
        out[: self.value.size] = self.value
        return out

    def _lifted(self) -> Any:
        return jnp.asarray(self.padded()) if self.trace is None else self.trace

    def load(self, index: np.ndarray) -> LaneValue:
        """Return the value of the element that each lane addresses; the results of idle lanes are not used."""
        return LaneValue(self.value[index], None if self.trace is None else take(self.trace, index))

    def store(self, index: np.ndarray, new: LaneValue, mask: np.ndarray) -> None:
        """Store the value of each lane in the mask to its element; if lanes share an element, the last lane wins."""
        lanes = np.flatnonzero(mask)
        before = self._lifted() if self._keeps(new) else None
        owner = np.full(bucket(self.value.size), -1)
        # If several lanes share an element, the last assignment stays, as in lane order.
        owner[index[lanes]] = lanes
        written = owner >= 0
        if before is not None:
            self.trace = lax.select(written, take(new.lifted(), np.maximum(owner, 0)), before)
        here = written[: self.value.size]
        self.value[here] = new.value[owner[: self.value.size][here]]

    def add(self, index: np.ndarray, new: LaneValue, mask: np.ndarray) -> None:
        """Add the value of each lane in the mask to its element, in lane order."""
        lanes = np.flatnonzero(mask)
        if self._keeps(new):
            # Idle lanes get an index out of range, which FILL_OR_DROP ignores.
            outside = np.where(mask, index, bucket(self.value.size)).astype(np.int32)[:, None]
            mode = lax.GatherScatterMode.FILL_OR_DROP
            self.trace = lax.scatter_add(self._lifted(), outside, new.lifted(), _SCATTER, mode=mode)
        np.add.at(self.value, index[lanes], new.value[lanes])

    def _keeps(self, new: LaneValue) -> bool:
        return self.carries and (self.trace is not None or new.trace is not None)

    # -- order between lanes --------------------------------------------------------------------------------

    def claim(self, access: str, index: np.ndarray, mask: np.ndarray, once: bool = False) -> None:
        """Record an access by the lanes of `mask`. Raise OrderDependence if the order of the lanes matters.

        Accesses of one kind commute with each other, except stores.

        Args:
            access: 'load', 'store', or the name of an atomic whose old value is not used.
            index: the element of each lane.
            mask: the lanes that access.
            once: True if several lanes may share an element within this statement.

        Raises:
            OrderDependence: the access does not commute with one of another lane.
        """
        lanes = np.flatnonzero(mask)
        cells = index[lanes]
        exclusive = access == "store"
        for kind, owner in self._touched.items():
            others = (owner[cells] != _FREE) & (owner[cells] != lanes)
            # Accesses of one kind commute with each other, except stores.
            if (exclusive or kind != access) and others.any():
                raise OrderDependence
        owner = self._touched.setdefault(access, np.full(self.value.size, _FREE))
        fresh = owner[cells] == _FREE
        owner[cells[fresh]] = lanes[fresh]
        shared = owner[cells] != lanes
        if exclusive and not once and shared.any():
            raise OrderDependence
        owner[cells[shared]] = _MANY


def ranks(index: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each lane in the queue of lanes that access its element, and the next lane in that queue.

    Returns:
        The place of each lane in its queue (0 first), and the next lane in the queue (itself if last).
    """
    lanes = np.flatnonzero(mask)
    # A stable sort keeps the lane order within each queue.
    order = lanes[np.argsort(index[lanes], kind="stable")]
    place, successor = np.zeros(mask.size, np.int64), np.arange(mask.size)
    if order.size:
        same = index[order[1:]] == index[order[:-1]]
        starts = np.concatenate([[0], np.flatnonzero(~same) + 1])
        sizes = np.diff(np.concatenate([starts, [order.size]]))
        place[order] = np.arange(order.size) - np.repeat(starts, sizes)
        successor[order[:-1][same]] = order[1:][same]
    return place, successor


Combine = Callable[[LaneValue, LaneValue, np.ndarray], LaneValue]


def reduce_queues(
    new: LaneValue, index: np.ndarray, mask: np.ndarray, combine: Combine
) -> tuple[LaneValue, np.ndarray]:
    """Combine the values of all lanes that access one element in the first of these lanes; return values and lanes.

    Returns:
        The values, and the mask of the lanes (first of each queue) that hold the combined values.
    """
    place, successor = ranks(index, mask)
    step = 1
    while np.any(mask & (place >= step)):
        left = mask & (place % (2 * step) == 0) & (place[successor] == place + step)
        new = blend(left, combine(new, permute(new, successor), left), new)
        # After each step a lane points twice as far along its queue.
        successor = successor[successor]
        step *= 2
    return new, mask & (place == 0)
