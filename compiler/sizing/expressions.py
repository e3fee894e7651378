"""This module defines size expressions: formulas for the depth of an adstack or a number of rows.

    sum($i in 0 .. shape(x, 0): row[$i + 1] - row[$i])

An expression is an immutable tree over constants, scalar arguments, shapes, array elements and the indices of the loops
around it. Its numbers are whole numbers without bounds. Executors compute in 64 bits, and report it if 64 bits do not
hold a number. Each expression knows an interval, `low .. high`, that holds its value for all arguments. `when`, `and`
and `or` evaluate only what decides, so they read no element that the kernel would not read. A sum or a largest value
over an empty range is 0 and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..analysis.intervals import ALL, INFINITY, Interval, Number, NumberInterval, meet, type_interval
from ..ir.types import Scalar, i32

INT64 = (-(2**63), 2**63 - 1)

SAFE_PRODUCT = 2.0**63 - 2.0**13
"""A product of two integers fits into 64 bits if their product in f64 is smaller than this number. Both factors and the
product are rounded by at most 2^-53 of their value each, so the product in f64 is less than 2^12 from the exact one.
"""
WIDE = (-(2**47), 2**47 - 1)
"""The range that an integer leaf of 64 bits is assumed to lie in, which is checked.

It leaves room for sums of leaves and for multiples of some of them.
"""
SAFE = (-(2**62), 2**62)
"""The range that a result of 64 bits is checked to lie in, where the result may leave its type."""

KINDS: dict[str, str] = {
    "const": "a number: data = (value,)",
    "arg": "a scalar argument: data = (name, type)",
    "shape": "an extent: data = (array, axis)",
    "var": "the index of a loop around: data = (id,)",
    "read": "an element of an array: data = (array, type), args = indices",
    "sum": "data = (constant, factors..), args = terms",
    "product": "args = two factors or more",
    "floordiv": "args = (x, y), rounded down",
    "mod": "args = (x, y), x - y*floor(x/y)",
    "max": "args = two or more",
    "min": "args = two or more",
    "when": "args = (condition, x, y): x or y",
    "total": "data = (id,), args = (begin, end, x): the sum of x over begin .. end",
    "largest": "data = (id,), args = (begin, end, x): the largest x over begin .. end, at least 0",
    "positive": "args = (x,): 0 < x",
    "zero": "args = (x,): x is 0",
    "compare": "data = (operation,), args = two real leaves",
    "not": "args = (condition,)",
    "and": "args = two conditions or more; those after a false one are not looked at",
    "or": "args = two conditions or more; those after a true one are not looked at",
}
"""Every kind of expression, with the meaning of its data and arguments."""

CONDITIONS = frozenset({"positive", "zero", "compare", "not", "and", "or"})
"""Kinds whose value is true or false."""
OVER = frozenset({"total", "largest"})
"""Kinds that are evaluated over a range."""


@dataclass(frozen=True, eq=False)
class SizeExpr:
    """Represent one node of a size expression, such as a sum, with its arguments. Nodes of equal text are equal.

    Attributes:
        kind: One of the keys of KINDS.
        data: Plain values that KINDS lists for the kind, such as the name of an array.
        args: The argument nodes that KINDS lists for the kind.
        low: Lower bound of the value.
        high: Upper bound of the value.
        key: The text of the expression.
        size: Number of nodes of the tree.
        free: Numbers of the loops whose index the expression needs.
        reads: True if the expression reads an element of an array.
    """

    kind: str
    data: tuple[object, ...]
    args: tuple[SizeExpr, ...]
    low: Number
    high: Number
    key: str
    size: int
    free: frozenset[int]
    reads: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    @property
    def interval(self) -> NumberInterval:
        """Return an interval that contains the value of this expression."""
        return Interval(self.low, self.high)

    @property
    def is_condition(self) -> bool:
        """Return True if the value of this expression is a truth value."""
        return _leaf_kind(self) == "b"

    @property
    def is_real(self) -> bool:
        """Return True if the value of this expression is a real number."""
        return _leaf_kind(self) == "f"


def _leaf_kind(expr: SizeExpr) -> str:
    """Return the kind of the value: "b" for a condition, "f" for a real, or the kind of an integer type."""
    if expr.kind in ("arg", "read"):
        dtype = expr.data[1]
        assert isinstance(dtype, Scalar)
        return dtype.kind
    if expr.kind == "const":
        return "b" if isinstance(expr.data[0], bool) else "f" if isinstance(expr.data[0], float) else "i"
    return "b" if expr.kind in CONDITIONS else "i"


def node(
    kind: str,
    args: tuple[SizeExpr, ...] = (),
    data: tuple[object, ...] = (),
    low: Number = -INFINITY,
    high: Number = INFINITY,
) -> SizeExpr:
    """Return a node made of the given parts as they are; unlike the functions of `algebra`, do not simplify it.

    Args:
        kind: One of the keys of KINDS.
        args: The argument nodes that KINDS lists for the kind.
        data: Plain values that KINDS lists for the kind, such as the name of an array.
        low: Lower bound of the value.
        high: Upper bound of the value.
    """
    words = ",".join([str(d) for d in data]) if data else ""
    free, size, reads = _NO_LOOP, 1, kind == "read"
    for a in args:
        size += a.size
        reads = reads or a.reads
        free = free | a.free if a.free else free
    if kind == "var":
        free = frozenset((_id(data),))
    elif kind in OVER:
        free = args[0].free | args[1].free | args[2].free - {_id(data)}
    key = f"{kind}({words})" if not args else f"{kind}({words};{','.join([a.key for a in args])})"
    return _made(kind=kind, data=data, args=args, low=low, high=high, key=key, size=size, free=free, reads=reads)


def _made(**fields: object) -> SizeExpr:
    """Return a SizeExpr without a call of the slow constructor of frozen dataclasses."""
    made = object.__new__(SizeExpr)
    made.__dict__.update(fields)
    return made


_NO_LOOP: frozenset[int] = frozenset()


def _id(data: tuple[object, ...]) -> int:
    """Return the number of the loop that a node refers to, which is the first item of its data."""
    number = data[0]
    assert isinstance(number, int)
    return number


def variable_of(over: SizeExpr) -> int:
    """Return the number of the loop that a node `total`, `largest` or `var` refers to."""
    return _id(over.data)


# ---- leaves -------------------------------------------------------------------------------------------------


def const(value: Number | bool) -> SizeExpr:
    """Return a node for a constant number or truth value."""
    return node("const", (), (value,), value, value)


ZERO, ONE, TRUE, FALSE = const(0), const(1), const(True), const(False)


def _leaf_interval(dtype: Scalar) -> NumberInterval:
    """Return the interval that is assumed of an argument, extent or array element of this type."""
    return ALL if dtype.is_real else meet(type_interval(dtype), Interval(*WIDE))


def argument(name: str, dtype: Scalar) -> SizeExpr:
    """Return a node for the value of a scalar argument."""
    return node("arg", (), (name, dtype), *_leaf_interval(dtype))


def shape(array: str, axis: int, dtype: Scalar = i32) -> SizeExpr:
    """Return a node for the extent of an array along an axis, which the kernel reads as a value of type `dtype`."""
    return node("shape", (), (array, axis), 0, min(dtype.limits[1], WIDE[1]))


def variable(number: int, low: Number, high: Number) -> SizeExpr:
    """Return a node for the index of the loop with this number; the index is between `low` and `high`."""
    return node("var", (), (number,), low, high)


def read(array: str, dtype: Scalar, indices: Iterable[SizeExpr]) -> SizeExpr:
    """Return a size expression that reads the element of an array at `indices`."""
    return node("read", tuple(indices), (array, dtype), *_leaf_interval(dtype))


def assume_least(expr: SizeExpr, low: Number) -> SizeExpr:
    """Return the expression with its lower bound raised to `low`, which the caller knows to hold."""
    if expr.low >= low:
        return expr
    return _made(**{**expr.__dict__, "low": low, "high": max(expr.high, low)})


def walk(expr: SizeExpr) -> Iterable[SizeExpr]:
    """Yield every node of an expression, arguments before the node that uses them."""
    for arg in expr.args:
        yield from walk(arg)
    yield expr
