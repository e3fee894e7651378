"""Gradients in half precision that belong to others: kernels add to f32 beside them, what is left is rounded into them.

torch wants the gradient of an f16 tensor in f16, of which a sum of many shares would stop growing. Invariant: after a
launch the gradient of the other library is the rounded accumulator; before one, elements that somebody else has
written since, and only those, are taken over from there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from .session import RUNTIME

_KEPT: dict[int, tuple[weakref.ref[Any], Accumulator]] = {}
"""By the identity of the tensor: its accumulator, which lives as long as the tensor."""


_NOTHING = nullcontext()


class Accumulator(np.ndarray):
    """f32 memory of the host. narrow: the gradient in f16 that it is rounded into. on_device: where that is."""

    narrow: np.ndarray
    on_device: bool

    @classmethod
    def of(cls, narrow: np.ndarray, on_device: bool = False) -> Accumulator:
        """A new one, with what the gradient holds."""
        made = np.zeros(narrow.shape, np.float32).view(cls)
        made.narrow, made.on_device = narrow, on_device
        made.refresh()
        return made

    def refresh(self) -> None:
        """Before a launch: what others have written."""
        given = RUNTIME.remote.fetch(self.narrow) if self.on_device and RUNTIME.remote else self.narrow
        mine = self._rounded()
        same = (mine == given) | np.isnan(mine) & np.isnan(given)
        np.copyto(self, given, where=~same)

    def give(self) -> None:
        """After a launch."""
        if self.on_device and RUNTIME.remote:
            RUNTIME.remote.assign(self.narrow, ..., self._rounded())
        else:
            self.narrow[...] = self._rounded()

    def store(self, content: np.ndarray) -> None:
        """Overwrite both."""
        self[...] = content
        self.give()

    def _rounded(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(self).astype(np.float16)


def accumulating(narrow: np.ndarray, owner: Any = None, on_device: bool = False) -> np.ndarray:
    """What kernels use as this gradient: itself, or if it is in half precision an accumulator.

    owner: the tensor whose gradient it is; all calls with it have one accumulator, so that no launch rounds what the
    next one adds to.
    """
    if narrow.dtype != np.float16:
        return narrow
    if owner is None:
        return Accumulator.of(narrow)
    number, address = id(owner), narrow.__array_interface__["data"][0]
    known = _KEPT.get(number)
    if known is not None and known[0]() is owner:
        found = known[1].narrow
        if found.__array_interface__["data"][0] == address and found.shape == narrow.shape:
            return known[1]
    made = Accumulator.of(narrow, on_device)
    _KEPT[number] = weakref.ref(owner, lambda _: _KEPT.pop(number, None)), made
    return made


def accumulators(arrays: Iterable[Any]) -> tuple[Accumulator, ...]:
    """Those among the arrays of a launch."""
    return tuple(array for array in arrays if isinstance(array, Accumulator))


def rounded(found: tuple[Accumulator, ...]) -> AbstractContextManager[None]:
    """Around a launch that may use these."""
    return _around(found) if found else _NOTHING


@contextmanager
def _around(found: tuple[Accumulator, ...]) -> Iterator[None]:
    for one in found:
        one.refresh()
    try:
        yield
    finally:
        if RUNTIME.remote is not None:
            RUNTIME.settle()
        for one in found:
            one.give()
