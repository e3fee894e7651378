"""This module computes the symbolic interval of the result of each operation from the intervals of its operands.

Nothing is known of the result of an operation that is not listed here, above all of operations on reals.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import nodes as n
from ..ir.ops import COMPARISONS, OPS
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


def _magnitude(x: SymbolicInterval) -> SymbolicInterval:
    """Return the symbolic interval of an absolute value."""
    return s.apply_operation((x,), lambda e: a.maximum(e, a.scale(e, -1)))


WRAPPING: Table[str, SymbolicRule] = Table(
    "sizing.wrapping",
    OPS,
    about="the size expression of an integer operation whose result may leave its type",
    optional="nothing is known of the result",
)
"""Integer operations whose result may leave its type."""
WRAPPING.update(
    {
        "add": s.add,
        "sub": s.sub,
        "mul": s.mul,
        "neg": lambda x: s.sub(s.NOTHING, x),
        "abs": _magnitude,
        "bit_shl": _shifted_left,
        "floordiv": s.floordiv,
    }
)

WITHIN: Table[str, SymbolicRule] = Table(
    "sizing.within",
    OPS,
    about="the size expression of an integer operation whose result cannot leave its type",
    optional="nothing is known of the result",
)
"""Integer operations whose result cannot leave its type."""
WITHIN.update(
    {
        "min": s.minimum,
        "max": s.maximum,
        "mod": s.mod,
        "bit_shr": _shifted_right,
        "bit_sar": _shifted_right,
        "unique": lambda x, _: x,
    }
)


def _less(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition x < y as a size expression."""
    return a.positive(a.sub(y, x))


def _at_most(x: SizeExpr, y: SizeExpr) -> SizeExpr:
    """Return the condition x <= y as a size expression."""
    return a.positive(a.add(a.sub(y, x), ONE))


COMPARED: Table[str, Callable[[SizeExpr, SizeExpr], SizeExpr]] = Table(
    "sizing.compared", COMPARISONS, about="the size expression of a comparison of integers"
)
"""Comparisons of integers."""
COMPARED.update(
    {
        "cmp_lt": _less,
        "cmp_le": _at_most,
        "cmp_gt": lambda x, y: _less(y, x),
        "cmp_ge": lambda x, y: _at_most(y, x),
        "cmp_eq": lambda x, y: a.zero(a.sub(x, y)),
        "cmp_ne": lambda x, y: a.negate(a.zero(a.sub(x, y))),
    }
)

REAL: Table[str, Callable[[SizeExpr, SizeExpr], SizeExpr]] = Table(
    "sizing.real", COMPARISONS, about="the size expression of a comparison of reals"
)
"""Comparisons of reals. A comparison with a NaN is false, except for cmp_ne."""
REAL.update(
    {
        "cmp_lt": lambda x, y: a.compare("cmp_lt", x, y),
        "cmp_le": lambda x, y: a.compare("cmp_le", x, y),
        "cmp_gt": lambda x, y: a.compare("cmp_lt", y, x),
        "cmp_ge": lambda x, y: a.compare("cmp_le", y, x),
        "cmp_eq": lambda x, y: a.compare("cmp_eq", x, y),
        "cmp_ne": lambda x, y: a.compare("cmp_ne", x, y),
    }
)

BOOLEAN: Table[str, Callable[..., SizeExpr]] = Table(
    "sizing.boolean",
    OPS,
    about="the size expression of an operation on booleans",
    optional="nothing is known of the result",
)
"""Operations on booleans."""
BOOLEAN.update(
    {
        "logical_and": a.all_of,
        "bit_and": a.all_of,
        "logical_or": a.any_of,
        "bit_or": a.any_of,
        "logic_not": a.negate,
        "bit_not": a.negate,
        "cmp_eq": lambda x, y: a.select_condition(x, y, a.negate(y)),
        "cmp_ne": lambda x, y: a.select_condition(x, a.negate(y), y),
        "bit_xor": lambda x, y: a.select_condition(x, a.negate(y), y),
    }
)


def operation(stmt: n.Op, args: tuple[SymbolicInterval, ...], around: PointContext | None) -> SymbolicInterval:
    """Return the symbolic interval of an operation's result, given those of its operands.

    Args:
        stmt: The operation.
        args: The spans of its operands.
        around: The loops and conditions around it.
    """
    if stmt.op == "select":
        return s.select_interval(*args)
    dtype = stmt.args[0].type
    if dtype.is_bool or dtype.is_real:
        rules = BOOLEAN if dtype.is_bool else REAL
        return s.apply_operation(args, rules[stmt.op]) if stmt.op in rules else UNKNOWN
    if stmt.op in COMPARED:
        return s.apply_operation(args, COMPARED[stmt.op])
    if stmt.op in WRAPPING:
        return s.checked_interval(WRAPPING[stmt.op](*args), stmt.result.type, around)
    return WITHIN[stmt.op](*args) if stmt.op in WITHIN else UNKNOWN


def cast(x: SymbolicInterval, source: Scalar, target: Scalar, around: PointContext | None) -> SymbolicInterval:
    """Return the symbolic interval of a conversion. Reals keep theirs if the new type holds all old numbers.

    Args:
        x: The span of the operand.
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
