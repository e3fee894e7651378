"""This module contains INTERVALS, the table of rules that compute a result's interval from its operands' intervals.

There is one entry for each operation of OPS. A value of an interval lies inside or is NaN; an infinite end means that
the value may be infinite. A rule returns an interval that contains all mathematically exact results. `rounded_interval`
then adds what rounding may add to a real, and handles results that overflow or wrap. All analyses of numbers use these
rules: `real_ranges` for all launches, `launch_ranges` for one launch, and `index_facts` for the symbols of its
inequalities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..ir import nodes as n
from ..ir.ops import OPS
from ..ir.table import Table
from ..ir.types import Scalar
from .intervals import (
    ALL,
    EMPTY,
    INFINITY,
    TRUTH,
    Interval,
    Number,
    NumberInterval,
    absolute,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    corners,
    extreme_operands,
    floor_quotient,
    is_empty,
    is_finite,
    join,
    point,
    product,
    remainder,
    shifted,
    type_interval,
)

IntervalRule = Callable[..., NumberInterval]
"""A rule takes the type of the operands and their intervals. It returns the interval of the result before rounding."""

INTERVALS: Table[str, IntervalRule] = Table(
    "intervals", OPS, about="the interval of the result from the type and the intervals of the operands"
)

LARGEST = {16: 65504.0, 32: 3.4e38, 64: 1.7e308}
"""Largest magnitude that surely does not round to infinity, by the number of bits of a real."""

SLACK = {16: 2.0**-8, 32: 2.0**-20, 64: 2.0**-40}
"""Upper bound of the relative error of any operation, by the number of bits of a real."""

TINY = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}
"""Least normal number by the number of bits of a real; a smaller number may be replaced by 0."""

EXACT = frozenset({"neg", "abs", "sgn", "floor", "ceil", "round", "min", "max", "select", "unique"})
"""These operations do not round reals."""


# ---- what a type does to a result -----------------------------------------------------------------------------


def rounded_interval(found: NumberInterval, t: Scalar) -> NumberInterval:
    """Return an interval after rounding or wrapping its values to a type. Real values may become infinite.

    Args:
        found: interval of the exact result.
        t: type of the result.
    """
    if not t.is_real:
        limits = type_interval(t)
        return found if limits.low <= found.low and found.high <= limits.high else limits
    slack, tiny, largest = SLACK[t.bits], TINY[t.bits], LARGEST[t.bits]
    # Rounding moves each end outward by at most a fraction of its magnitude, or by a denormal number.
    low = found.low - abs(found.low) * slack - tiny
    high = found.high + abs(found.high) * slack + tiny
    return Interval(low if low >= -largest else -INFINITY, high if high <= largest else INFINITY)


def constant_interval(stmt: n.Const) -> NumberInterval:
    """Return the interval that contains only a constant."""
    value: Number = float(stmt.value) if stmt.result.type.is_real else int(stmt.value)
    return point(value) if math.isfinite(value) else ALL


def operation_interval(stmt: n.Op, operands: Sequence[NumberInterval]) -> NumberInterval:
    """Return the interval of the result of an operation; it is empty if an operand is never computed.

    Args:
        stmt: the operation.
        operands: the intervals of its operands.
    """
    if any(map(is_empty, operands)):
        return EMPTY
    # The first operand of a `select` is a condition, so the last operand tells the type.
    found = INTERVALS[stmt.op](stmt.args[-1].type, *operands)
    return found if stmt.op in EXACT and stmt.result.type.is_real else rounded_interval(found, stmt.result.type)


def cast_interval(found: NumberInterval, source: Scalar, target: Scalar) -> NumberInterval:
    """Return the interval of a cast's result: real to integer truncates and saturates, and NaN becomes 0.

    Args:
        found: interval of the operand.
        source: type of the operand.
        target: type of the result.
    """
    if is_empty(found):
        return EMPTY
    if target.is_bool:
        return TRUTH
    if not (source.is_real and target.is_int):
        return rounded_interval(found, target)
    least, most = type_interval(target)
    low = least if found.low <= least else math.trunc(min(found.low, 0))
    high = most if found.high >= most else math.trunc(max(found.high, 0))
    return Interval(low, high)


# ---- rules ------------------------------------------------------------------------------------------------------


def _monotonic(f: Callable[..., Number], *grows: bool) -> IntervalRule:
    """Return the interval rule of a function that is monotonic in each operand: growing where `grows` is True."""

    def rule(t: Scalar, *operands: NumberInterval) -> NumberInterval:
        lows, highs = extreme_operands(operands, grows)
        return Interval(f(*lows), f(*highs))

    return rule


def _steps(f: Callable[[float], float]) -> IntervalRule:
    """Return the interval rule of a function, such as `floor`, that grows with its operand and keeps infinities."""
    return _monotonic(lambda x: float(f(x)) if math.isfinite(x) else x, True)


def _within(low: Number, high: Number) -> IntervalRule:
    """Return an interval rule whose result is [low, high] for any operands."""
    found = Interval(low, high)
    return lambda t, *operands: found


def _whole(rule: Callable[..., NumberInterval], real: Callable[..., NumberInterval]) -> IntervalRule:
    """Return an interval rule that applies `rule` to integers and `real` to real numbers."""
    return lambda t, *operands: (real if t.is_real else rule)(*operands)


def _div(t: Scalar, a: NumberInterval, b: NumberInterval) -> NumberInterval:
    # A divisor interval that contains 0 makes the quotient unbounded.
    sound = (b.low > 0 or b.high < 0) and is_finite(a, b)
    return corners(lambda x, y: x / y, a, b) if sound else ALL


def _inv(t: Scalar, a: NumberInterval) -> NumberInterval:
    return _div(t, point(1.0), a)


def _sqrt(t: Scalar, a: NumberInterval) -> NumberInterval:
    return Interval(0.0, math.sqrt(max(a.high, 0.0)))


def _rsqrt(t: Scalar, a: NumberInterval) -> NumberInterval:
    return _inv(t, _sqrt(t, a)) if a.low > 0 else ALL


def _exp(t: Scalar, a: NumberInterval) -> NumberInterval:
    return Interval(0.0, math.exp(a.high) if a.high < 700 else INFINITY)


def _real_mod(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """Return the interval of a remainder, which has the sign of the divisor and at most its magnitude."""
    return Interval(min(b.low, 0.0), max(b.high, 0.0))


def _sar(t: Scalar, a: NumberInterval, b: NumberInterval) -> NumberInterval:
    # An arithmetic shift takes the highest bit of an unsigned number for its sign.
    negative = a.high >= 1 << (t.bits - 1)
    return ALL if negative else shifted(a, b, t.bits, left=False)


_anything = _within(*ALL)
_truth = _within(*TRUTH)

INTERVALS.update(
    {
        "neg": _monotonic(lambda x: -x, False),
        "abs": lambda t, a: absolute(a),
        "sgn": _within(-1, 1),
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
        "frexp_mantissa": lambda t, a: Interval(-1.0, 1.0) if is_finite(a) else ALL,
        "frexp_exponent": _anything,
        "bit_not": _anything,
        "logic_not": _truth,
        "popcnt": _within(0, 64),
        "clz": _within(0, 64),
        "ffs": _within(0, 64),
        "add": _monotonic(lambda x, y: x + y, True, True),
        "sub": _monotonic(lambda x, y: x - y, True, False),
        "mul": lambda t, a, b: product(a, b),
        "div": _div,
        "floordiv": _whole(floor_quotient, real=lambda a, b: ALL),
        "mod": _whole(remainder, real=_real_mod),
        "pow": _anything,
        "atan2": _within(-math.pi, math.pi),
        "min": _monotonic(min, True, True),
        "max": _monotonic(max, True, True),
        "bit_and": lambda t, a, b: bitwise_and(a, b),
        "bit_or": lambda t, a, b: bitwise_or(a, b),
        "bit_xor": lambda t, a, b: bitwise_xor(a, b),
        "unique": lambda t, a, b: a,
        "bit_shl": lambda t, a, b: shifted(a, b, t.bits, left=True),
        "bit_shr": lambda t, a, b: shifted(a, b, t.bits, left=False),
        "bit_sar": _sar,
        "cmp_lt": _truth,
        "cmp_le": _truth,
        "cmp_gt": _truth,
        "cmp_ge": _truth,
        "cmp_eq": _truth,
        "cmp_ne": _truth,
        "logical_and": _truth,
        "logical_or": _truth,
        "select": lambda t, c, a, b: join(a, b),
    }
)
