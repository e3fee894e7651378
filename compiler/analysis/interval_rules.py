"""This module contains INTERVALS, the table of rules that compute a result's interval from its operands' intervals.

There is one row for each operation of OPS. An interval (low, high) is closed. A value of the interval lies inside or is
NaN; an infinite end means that the value may be infinite. Rows give the exact image or more. `rounded_interval` then
adds what rounding may add, and handles results that overflow or wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.ops import OPS
from ..ir.table import Table
from ..ir.types import Scalar

Interval = tuple[float, float]
INFINITY = math.inf
ALL: Interval = (-INFINITY, INFINITY)
ZERO: Interval = (0.0, 0.0)
TRUTH: Interval = (0.0, 1.0)

IntervalRule = Callable[..., Interval]
"""A rule returns the interval of a result before rounding, from the intervals of the operands."""

INTERVALS: Table[str, IntervalRule] = Table(
    "intervals", OPS, about="the interval of the result from the intervals of the operands"
)

LARGEST = {16: 65504.0, 32: 3.4e38, 64: 1.7e308}
"""Largest magnitude that surely does not round to infinity, by the number of bits of a real."""

SLACK = {16: 2.0**-8, 32: 2.0**-20, 64: 2.0**-40}
"""Upper bound of the relative error of any operation, by the number of bits of a real."""

TINY = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}
"""Least normal number by the number of bits of a real; a smaller number may be replaced by 0."""

WHOLE = 2.0**53
"""Integers beyond this magnitude may not be representable as floats."""

EXACT = frozenset({"neg", "abs", "sgn", "floor", "ceil", "round", "min", "max", "select", "unique"})
"""These operations do not round reals."""


def interval_union(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that contains both intervals."""
    return min(a[0], b[0]), max(a[1], b[1])


def magnitude(a: Interval) -> float:
    """Return the largest absolute value in the interval."""
    return max(abs(a[0]), abs(a[1]))


def of_type(t: Scalar) -> Interval:
    """Return an interval that contains every value of a type.

    The interval of a wide integer is unbounded, because its ends are not exact as floats.
    """
    if t.is_bool:
        return TRUTH
    if t.is_real or t.bits > 32:
        return ALL
    return (-(2.0 ** (t.bits - 1)), 2.0 ** (t.bits - 1) - 1) if t.is_signed else (0.0, 2.0**t.bits - 1)


def rounded_interval(found: Interval, t: Scalar) -> Interval:
    """Return an interval after rounding or wrapping its values to a type. Real values may become infinite.

    Args:
        found: interval of the exact result.
        t: type of the result.
    """
    low, high = found
    if t.is_real:
        slack, tiny, largest = SLACK[t.bits], TINY[t.bits], LARGEST[t.bits]
        # Rounding moves each end outward by at most a fraction of its magnitude, or by a denormal number.
        low, high = low - abs(low) * slack - tiny, high + abs(high) * slack + tiny
        return low if low >= -largest else -INFINITY, high if high <= largest else INFINITY
    least, most = of_type(t)
    return found if max(least, -WHOLE) <= low and high <= min(most, WHOLE) else (least, most)


def _finite(*operands: Interval) -> bool:
    return all(math.isfinite(end) for a in operands for end in a)


def _corners(f: Callable[[float, float], float], a: Interval, b: Interval) -> Interval:
    """Return the interval of f(a, b) for a function that is monotonic in each operand."""
    if not _finite(a, b):
        return ALL
    # The extremes of such a function lie at the corners of the box of the operands.
    ends = [f(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _div(a: Interval, b: Interval) -> Interval:
    # A divisor interval that contains 0 makes the quotient unbounded.
    return _corners(lambda x, y: x / y, a, b) if b[0] > 0 or b[1] < 0 else ALL


def _inv(a: Interval) -> Interval:
    return _div((1.0, 1.0), a)


def _abs(a: Interval) -> Interval:
    return (0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), magnitude(a)


def _sqrt(a: Interval) -> Interval:
    return 0.0, math.sqrt(max(a[1], 0.0))


def _rsqrt(a: Interval) -> Interval:
    return _inv(_sqrt(a)) if a[0] > 0 else ALL


def _exp(a: Interval) -> Interval:
    return 0.0, math.exp(a[1]) if a[1] < 700 else INFINITY


def _mod(a: Interval, b: Interval) -> Interval:
    """Return the interval of a remainder a mod b, which has the sign of b and a smaller magnitude."""
    return min(b[0], 0.0), max(b[1], 0.0)


def _steps(f: Callable[[float], float]) -> IntervalRule:
    """Return the interval rule of a monotonic function of one operand, such as a rounding function."""
    return lambda a: (f(a[0]) if math.isfinite(a[0]) else a[0], f(a[1]) if math.isfinite(a[1]) else a[1])


def _within(low: float, high: float) -> IntervalRule:
    """Return an interval rule whose result is [low, high] for any operands."""
    return lambda *operands: (low, high)


_anything = _within(*ALL)
_truth = _within(*TRUTH)

INTERVALS.update(
    {
        "neg": lambda a: (-a[1], -a[0]),
        "abs": _abs,
        "sgn": _within(-1.0, 1.0),
        "floor": _steps(math.floor),
        "ceil": _steps(math.ceil),
        "round": _steps(round),
        "sqrt": _sqrt,
        "rsqrt": _rsqrt,
        "inv": _inv,
        "rcp": _inv,
        "exp": _exp,
        "log": _anything,
        "sin": _within(-1.0, 1.0),
        "cos": _within(-1.0, 1.0),
        "tan": _anything,
        "asin": _within(-math.pi / 2, math.pi / 2),
        "acos": _within(0.0, math.pi),
        "tanh": _within(-1.0, 1.0),
        "frexp_mantissa": lambda a: (-1.0, 1.0) if _finite(a) else ALL,
        "frexp_exponent": _anything,
        "bit_not": _anything,
        "logic_not": _truth,
        "popcnt": _within(0.0, 64.0),
        "clz": _within(0.0, 64.0),
        "ffs": _within(0.0, 64.0),
        "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
        "mul": lambda a, b: _corners(lambda x, y: x * y, a, b),
        "div": _div,
        "floordiv": _anything,
        "mod": _mod,
        "pow": _anything,
        "atan2": _within(-math.pi, math.pi),
        "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
        "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
        "bit_and": _anything,
        "bit_or": _anything,
        "bit_xor": _anything,
        "unique": lambda a, b: a,
        "bit_shl": _anything,
        "bit_shr": _anything,
        "bit_sar": _anything,
        "cmp_lt": _truth,
        "cmp_le": _truth,
        "cmp_gt": _truth,
        "cmp_ge": _truth,
        "cmp_eq": _truth,
        "cmp_ne": _truth,
        "logical_and": _truth,
        "logical_or": _truth,
        "select": lambda c, a, b: interval_union(a, b),
    }
)


def cast_interval(found: Interval, source: Scalar, target: Scalar) -> Interval:
    """Return the interval of a cast's result: real to integer truncates and saturates, and NaN becomes 0.

    Args:
        found: interval of the operand.
        source: type of the operand.
        target: type of the result.
    """
    if target.is_bool:
        return TRUTH
    if not (source.is_real and target.is_int):
        return rounded_interval(found, target)
    least, most = of_type(target)
    return max(min(found[0], 0.0), least), min(max(found[1], 0.0), most)
