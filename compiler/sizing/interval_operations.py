"""This module computes the symbolic interval of the result of each operation from the intervals of its operands.

Nothing is known of the result of an operation that is not listed here, above all of operations on reals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.ops import OPS
from ..ir.table import Table
from ..ir.types import Scalar
from . import algebra as a
from . import symbolic_intervals as s
from .expressions import FALSE, ONE, TRUE, ZERO, SizeExpr, const
from .symbolic_intervals import UNKNOWN, PointContext, SymbolicInterval

SymbolicRule = Callable[..., SymbolicInterval]


def _shifted_left(x: SymbolicInterval, count: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a left shift by a known count."""
    places = None if count.exact is None else a.value_of(count.exact)
    return s.mul(x, s.constant_interval(1 << places)) if places is not None and 0 <= places < 31 else UNKNOWN


def _shifted_right(x: SymbolicInterval, count: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of a right shift of a non-negative number, which is a division."""
    places = None if count.exact is None else a.value_of(count.exact)
    sound = x.exact is not None and x.exact.low >= 0 and places is not None and 0 <= places < 31
    return s.floordiv(x, s.constant_interval(1 << (places or 0))) if sound else UNKNOWN


def _less(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition x < y as a size expression."""
    return a.positive(a.sub(y, x))


def _at_most(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition x <= y as a size expression."""
    return a.positive(a.add(a.sub(y, x), ONE))


def _same(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition that two conditions are equal: both hold, or neither holds."""
    return a.select_condition(x, y, a.negate(y))


def _other(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition that exactly one of two conditions holds."""
    return a.select_condition(x, a.negate(y), y)


def _known(make: Callable[..., SizeExpr]) -> SymbolicRule:
    """Return the rule of an operation whose result is known only if all of its operands are known."""
    return lambda *operands: s.apply_operation(operands, make)


def _compared(name: str) -> SymbolicRule:
    """Return the rule of a comparison of reals. A comparison with a NaN is false, except for cmp_ne."""
    return _known(lambda x, y: a.compare(name, x, y))


@dataclass(frozen=True)
class SizeRule:
    """Represent the rules by which the interval of an operation's result is found; None means that it is unknown.

    Attributes:
        integer: The rule for operands that are integers.
        wraps: True if the result of integers may leave its type.
        real: The rule for operands that are reals.
        boolean: The rule for operands that are booleans.
    """

    integer: SymbolicRule | None = None
    wraps: bool = False
    real: SymbolicRule | None = None
    boolean: SymbolicRule | None = None


SIZES: Table[str, SizeRule] = Table(
    "sizing.operations",
    OPS,
    about="the size expression of the result, for operands that are integers, reals or booleans",
    optional="nothing is known of the result",
)
SIZES.update(
    {
        "add": SizeRule(s.add, wraps=True),
        "sub": SizeRule(s.sub, wraps=True),
        "mul": SizeRule(s.mul, wraps=True),
        "neg": SizeRule(lambda x: s.sub(s.NOTHING, x), wraps=True),
        "abs": SizeRule(_known(lambda e: a.maximum(e, a.scale(e, -1))), wraps=True),
        "bit_shl": SizeRule(_shifted_left, wraps=True),
        "floordiv": SizeRule(s.floordiv, wraps=True),
        "min": SizeRule(s.minimum),
        "max": SizeRule(s.maximum),
        "mod": SizeRule(s.mod),
        "bit_shr": SizeRule(_shifted_right),
        "bit_sar": SizeRule(_shifted_right),
        "unique": SizeRule(lambda x, _: x),
        "select": SizeRule(s.select_interval, real=s.select_interval, boolean=s.select_interval),
        "cmp_lt": SizeRule(_known(_less), real=_compared("cmp_lt")),
        "cmp_le": SizeRule(_known(_at_most), real=_compared("cmp_le")),
        "cmp_gt": SizeRule(_known(lambda x, y: _less(y, x)), real=_known(lambda x, y: a.compare("cmp_lt", y, x))),
        "cmp_ge": SizeRule(_known(lambda x, y: _at_most(y, x)), real=_known(lambda x, y: a.compare("cmp_le", y, x))),
        "cmp_eq": SizeRule(_known(lambda x, y: a.zero(a.sub(x, y))), real=_compared("cmp_eq"), boolean=_known(_same)),
        "cmp_ne": SizeRule(
            _known(lambda x, y: a.negate(a.zero(a.sub(x, y)))), real=_compared("cmp_ne"), boolean=_known(_other)
        ),
        "logical_and": SizeRule(boolean=_known(a.all_of)),
        "bit_and": SizeRule(boolean=_known(a.all_of)),
        "logical_or": SizeRule(boolean=_known(a.any_of)),
        "bit_or": SizeRule(boolean=_known(a.any_of)),
        "logic_not": SizeRule(boolean=_known(a.negate)),
        "bit_not": SizeRule(boolean=_known(a.negate)),
        "bit_xor": SizeRule(boolean=_known(_other)),
    }
)
"""What is known of the result of each operation."""


def operation(stmt: n.Op, args: tuple[SymbolicInterval, ...], around: PointContext | None) -> SymbolicInterval:
    """Return the symbolic interval of an operation's result, given those of its operands.

    Args:
        stmt: The operation.
        args: The symbolic intervals of its operands.
        around: The loops and conditions around it.
    """
    # The first operand of a `select` is a condition, so the last operand tells the type.
    dtype, row = stmt.args[-1].type, SIZES.get(stmt.op, SizeRule())
    rule = row.real if dtype.is_real else row.boolean if dtype.is_bool else row.integer
    if rule is None:
        return UNKNOWN
    return s.checked_interval(rule(*args), stmt.result.type, around) if row.wraps and dtype.is_int else rule(*args)


def cast(x: SymbolicInterval, source: Scalar, target: Scalar, around: PointContext | None) -> SymbolicInterval:
    """Return the symbolic interval of a cast's result; that of a real is known only if the cast changes no number.

    Args:
        x: The symbolic interval of the operand.
        source: The type of the operand.
        target: The type of the result.
        around: The loops and conditions around the conversion.
    """
    if source.is_real or target.is_real:
        wider = source.is_real and target.is_real and target.bits >= source.bits
        return x if wider else UNKNOWN
    if source.is_bool:
        return x if target.is_bool else s.apply_operation((x,), lambda c: a.select_value(c, ONE, ZERO))
    if target.is_bool:
        return s.apply_operation((x,), lambda e: a.negate(a.zero(e)))
    return s.checked_interval(x, target, around)


def constant(stmt: n.Const) -> SymbolicInterval:
    """Return the symbolic interval of a constant, which contains one number."""
    if stmt.result.type.is_bool:
        return s.exact_interval(TRUE if stmt.value else FALSE)
    return s.exact_interval(const(stmt.value))
