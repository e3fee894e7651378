"""Accumulate f16 gradients of other libraries in f32, so that sums of many terms do not lose precision.

torch wants the gradient of an f16 tensor in f16. A sum of many terms in f16 would stop growing at some size. So kernels
add to an accumulator in f32, which is rounded and stored to the gradient. Invariant: after a launch the gradient of the
other library is the rounded accumulator. Before a launch, those elements of the gradient that other code has written
since are copied to the accumulator, and no others.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ..runtime.session import RUNTIME

_KEPT: dict[int, tuple[weakref.ref[Any], Accumulator]] = {}
"""The table maps the identity of a tensor to its accumulator, which lives as long as the tensor."""


_NOTHING = nullcontext()


class Accumulator(np.ndarray):
    """Represent f32 host memory in which kernels sum a gradient that another library stores in f16.

    Attributes:
        narrow: The gradient in f16 that the accumulator is rounded into.
        on_device: True if the memory of `narrow` lies on a device.
    """

    narrow: np.ndarray
    on_device: bool

    @classmethod
    def of(cls, narrow: np.ndarray, on_device: bool = False) -> Accumulator:
        """Return a new accumulator that holds the present contents of a gradient in f16."""
        made = np.zeros(narrow.shape, np.float32).view(cls)
        made.narrow, made.on_device = narrow, on_device
        made.refresh()
        return made

    def refresh(self) -> None:
        """Copy those gradient elements that other code has changed into the accumulator, before a launch."""
        given = RUNTIME.remote.fetch(self.narrow) if self.on_device and RUNTIME.remote else self.narrow
        mine = self._rounded()
        # NaN differs from itself, so two NaNs must count as the same content.
        same = (mine == given) | np.isnan(mine) & np.isnan(given)
        np.copyto(self, given, where=~same)

    def give(self) -> None:
        """Store the accumulator, rounded to f16, into the gradient after a launch."""
        if self.on_device and RUNTIME.remote:
            RUNTIME.remote.assign(self.narrow, ..., self._rounded())
        else:
            self.narrow[...] = self._rounded()

    def store(self, content: np.ndarray) -> None:
        """Overwrite the accumulator and the gradient with the same contents."""
        self[...] = content
        self.give()

    def _rounded(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(self).astype(np.float16)


def accumulator_of(narrow: np.ndarray, owner: Any = None, on_device: bool = False) -> np.ndarray:
    """Return the array to which kernels add a gradient: the gradient, or an f32 accumulator if it is f16.

    Args:
        narrow: The gradient, of any real dtype.
        owner: The tensor to which the gradient belongs. All calls with the same owner return the same accumulator, so
            that sums are not rounded between launches. None for a new accumulator.
        on_device: True if the memory of the gradient lies on a device.

    Returns:
        The gradient itself, or an accumulator if the gradient is in half precision.
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


def accumulators_of(arrays: Iterable[Any]) -> tuple[Accumulator, ...]:
    """Return the accumulators among the arrays of a launch."""
    return tuple([array for array in arrays if isinstance(array, Accumulator)])


def rounding_launch(found: tuple[Accumulator, ...]) -> AbstractContextManager[None]:
    """Return a context manager for a launch, which keeps accumulators and the gradients that they stand for equal.

    It refreshes the accumulators before the launch, and stores them, rounded, to the gradients after the launch.
    """
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
