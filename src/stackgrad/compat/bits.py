"""Define functions on the bits of integers that kernels of Quadrants call."""

from __future__ import annotations

from typing import Any

from ..compiler.frontend.functions import EXPORTS, func
from ..compiler.ir.types import i32, u32

_LANGUAGE: Any = EXPORTS
cast, static = _LANGUAGE["cast"], _LANGUAGE["static"]

_WIDTH = 32
_NO_BIT = 0xFFFFFFFF


@func
def fns(mask: Any, base: Any, offset: Any) -> Any:
    """Return the position, as u32, of the n-th set bit from a base position on, or 0xFFFFFFFF if there is none.

    Args:
        mask: The bits.
        base: Position where the search begins; its bit counts.
        offset: n, the number of the set bit counted from `base`: upward if n is positive, downward if it is negative. 0
            asks for the bit at `base` itself.
    """
    bits = cast(mask, u32)
    step = 1
    left = cast(offset, i32)
    if left < 0:
        step = -1
        left = -left
    if left == 0:
        left = 1
        step = _WIDTH  # No other bit is looked at.
    found = cast(_NO_BIT, u32)
    at = cast(base, i32)
    while left > 0 and at >= 0 and at < _WIDTH:
        if ((bits >> cast(at, u32)) & cast(1, u32)) != cast(0, u32):
            left -= 1
            if left == 0:
                found = cast(at, u32)
        at += step
    return found


__all__ = ["fns"]
