"""This module bounds the error of an array element to which several iterations store, in an unknown order.

The last store wins, and its place in the order is unknown. Let the stores have values v and errors e. If the intervals
[v - e, v + e] have a point in common, the values may be equal, and the error of the element is max |v - content| + max
e: zero for equal values without error. If they have no common point, the values differ, and the order decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....reference.frame import LaneVector
from .rules import F64, INF

_NAN, _MINUS_ZERO, _OTHER = 1, 2, 4


class Stores:
    """A `Stores` records which values several iterations stored to each element of one array during one task.

    Attributes:
        kinds: which of NaN, an exact -0.0 and other numbers were stored; two different kinds are never equal.
        least: the least stored value.
        most: the greatest stored value.
        worst: the largest error of a stored value.
        low: the lower end of the intersection of the intervals, for reals.
        high: the upper end of the intersection of the intervals, for reals.
    """

    def __init__(self, content: LaneVector) -> None:
        size, dtype = content.size, content.dtype
        self.real = dtype.kind == "f"
        lowest, highest = (-INF, INF) if self.real else _limits(dtype)
        self.kinds, self.worst = np.zeros(size, np.uint8), np.zeros(size)
        self.least, self.most = (np.full(size, v, F64 if self.real else dtype) for v in (highest, lowest))
        self.low, self.high = np.full(size, -INF), np.full(size, INF)

    def note(self, index: LaneVector, value: LaneVector, e: LaneVector) -> None:
        """Record the stores of all lanes. An index, value or error that is no vector applies to every lane."""
        index, value, e = np.broadcast_arrays(index, value, e)
        np.bitwise_or.at(self.kinds, index, _kinds(value, e))
        np.maximum.at(self.worst, index, e)
        if self.real:
            value = np.nan_to_num(value.astype(F64), nan=0.0, posinf=np.inf, neginf=-np.inf)
            np.maximum.at(self.low, index, np.where(e < INF, value - e, -INF))
            np.minimum.at(self.high, index, np.where(e < INF, value + e, INF))
        np.minimum.at(self.least, index, value)
        np.maximum.at(self.most, index, value)

    def differ(self) -> LaneVector:
        """Return a mask of the elements to which certainly different values were stored."""
        if not self.real:
            mask: LaneVector = (self.worst == 0) & (self.least < self.most)
        else:
            mask = (self.kinds & (self.kinds - 1) != 0) | (self.high < self.low)
        return mask

    def nothing(self) -> LaneVector:
        """Return a mask of the elements into which only exact zeros were stored."""
        mask: LaneVector = (self.worst == 0) & (self.least == 0) & (self.most == 0) & (self.kinds == _OTHER)
        return mask

    def errors(self, content: LaneVector, of: LaneVector) -> LaneVector:
        """Return the error bounds of the elements numbered `of`, given the present contents of the array."""
        worst, least, most = self.worst[of], self.least[of], self.most[of]
        if not self.real:
            return np.where(worst > 0, INF, 0.0)
        value = content[of].astype(F64)
        far = np.where(least == most, 0.0, np.maximum(most - value, value - least))
        return np.where(np.isnan(far), INF, far + worst)


def _limits(dtype: Any) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _kinds(value: LaneVector, e: LaneVector) -> LaneVector:
    if value.dtype.kind != "f":
        return np.full(value.shape, _OTHER, np.uint8)
    zero = (value == 0) & np.signbit(value) & (e == 0)
    return np.where(np.isnan(value), _NAN, np.where(zero, _MINUS_ZERO, _OTHER)).astype(np.uint8)
