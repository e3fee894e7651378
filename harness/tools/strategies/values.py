"""This module lists edge values of every scalar type, and draws random inputs from edge and ordinary values.

The first value of each list is the simplest. Ordinary reals are multiples of 1/32, so they are exact in every type.
"""

from __future__ import annotations

import math

from ....compiler.ir.types import INTEGERS, SCALARS, Scalar
from .draw import Chooser

Number = bool | int | float


def _real_edges(mantissa: int, lowest: int, highest: int) -> tuple[float, ...]:
    """Return edge values of a real type: zeros, ones, neighbors, halves, subnormals, extremes, infinities, NaN.

    Args:
        mantissa: Number of bits of the significand, with the leading bit.
        lowest: Exponent of the smallest normal number.
        highest: Exponent of the largest number.
    """
    epsilon = 2.0 ** (1 - mantissa)
    # `least` is the smallest subnormal number and `tiny` the smallest normal one.
    least, tiny = 2.0 ** (lowest - mantissa + 1), 2.0**lowest
    large = (2.0 - epsilon) * 2.0**highest
    some = (1.0, 0.5, 1.5, 2.5, 1 + epsilon, 1 - epsilon / 2, tiny, least, tiny - least, large, 2.0**mantissa, math.pi)
    return (0.0, -0.0, *(s * v for v in some for s in (1.0, -1.0)), math.inf, -math.inf, math.nan)


def _integer_edges(dtype: Scalar) -> tuple[int, ...]:
    low, high = dtype.limits
    counts, halves = (dtype.bits - 1, dtype.bits), 1 << (dtype.bits // 2)
    candidates = (0, 1, 2, 3, -1, -2, 7, *counts, high, high - 1, low, low + 1, halves)
    return tuple(dict.fromkeys(c for c in candidates if low <= c <= high))


EDGES: dict[str, tuple[Number, ...]] = {
    "f16": _real_edges(11, -14, 15),
    "f32": _real_edges(24, -126, 127),
    "f64": _real_edges(53, -1022, 1023),
    "u1": (False, True),
    **{dtype.name: _integer_edges(dtype) for dtype in INTEGERS},
}
"""Edge values of every scalar type."""

GENTLE_EDGES: tuple[float, ...] = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5)
"""Edge values at which smooth programs stay smooth; equal values are likely among them."""


def edge(draw: Chooser, dtype: Scalar) -> Number:
    """Return a random edge value of a scalar type, such as a zero, an extreme or NaN."""
    return draw.choice(EDGES[dtype.name])


def ordinary_number(draw: Chooser, dtype: Scalar) -> Number:
    """Return a random ordinary number: a real within ±1.25, an integer in 0 .. 5, or a boolean."""
    if dtype.is_bool:
        return draw.boolean()
    if dtype.is_int:
        return draw.integer(0, 5)
    return draw.integer(0, 40) / 32 * (-1.0 if draw.boolean() else 1.0)


def any_number(draw: Chooser, dtype: Scalar, edges: float = 0.5) -> Number:
    """Return an edge value with the given probability, else an ordinary number."""
    return edge(draw, dtype) if draw.boolean(edges) else ordinary_number(draw, dtype)


def gentle_number(draw: Chooser, dtype: Scalar, edges: float = 0.15) -> Number:
    """Return an ordinary number, or a value of GENTLE_EDGES with the given probability."""
    if dtype.is_real and draw.boolean(edges):
        return draw.choice(GENTLE_EDGES)
    return ordinary_number(draw, dtype)


assert set(EDGES) == set(SCALARS)
