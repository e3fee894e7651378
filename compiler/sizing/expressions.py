"""Size expressions: what the depth of an adstack, or the number of rows, is made of.

    sum($i in 0 .. shape(x, 0): row[$i + 1] - row[$i])

An expression is an immutable tree over constants, scalar arguments, shapes, array elements and the indices of the
loops around it. Numbers are whole numbers without bounds; executors compute in 64 bits, and tell where those do not
hold them. Each expression
knows an interval, `low .. high`, that holds its value whatever the arguments are. `when` and `and`, `or` evaluate only
what decides, so no element is read that the kernel would not read; a sum or a largest value over an empty range is 0
and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.types import Scalar, i32

Number = int | float
INFINITY = float("inf")
INT64 = (-(2**63), 2**63 - 1)
WIDE = (-(2**47), 2**47 - 1)
"""What an integer leaf of 64 bits is taken to lie in, which is checked: room for sums and multiples of some of them."""
SAFE = (-(2**62), 2**62)
"""What a result of 64 bits is checked to lie in where it may leave its type."""

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
"""Every kind of expression."""

CONDITIONS = frozenset({"positive", "zero", "compare", "not", "and", "or"})
OVER = frozenset({"total", "largest"})


@dataclass(frozen=True, eq=False)
class Expr:
    """One node. data, args: see KINDS. low, high: bounds of the value.

    Two expressions are equal if they are written alike. size: nodes of the tree. free: loops whose index it needs.
    reads: whether an element of an array is read.
    """

    kind: str
    data: tuple[object, ...]
    args: tuple[Expr, ...]
    low: Number
    high: Number
    key: str
    size: int
    free: frozenset[int]
    reads: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key

    @property
    def is_condition(self) -> bool:
        return _leaf_kind(self) == "b"

    @property
    def is_real(self) -> bool:
        return _leaf_kind(self) == "f"


def _leaf_kind(expr: Expr) -> str:
    if expr.kind in ("arg", "read"):
        dtype = expr.data[1]
        assert isinstance(dtype, Scalar)
        return dtype.kind
    if expr.kind == "const":
        return "b" if isinstance(expr.data[0], bool) else "f" if isinstance(expr.data[0], float) else "i"
    return "b" if expr.kind in CONDITIONS else "i"


def node(
    kind: str,
    args: tuple[Expr, ...] = (),
    data: tuple[object, ...] = (),
    low: Number = -INFINITY,
    high: Number = INFINITY,
) -> Expr:
    """A node as it stands, not simplified: the functions of `algebra` make simpler ones."""
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


def _made(**fields: object) -> Expr:
    """An Expr without the constructor of frozen classes, which is most of the time."""
    made = object.__new__(Expr)
    made.__dict__.update(fields)
    return made


_NO_LOOP: frozenset[int] = frozenset()


def _id(data: tuple[object, ...]) -> int:
    number = data[0]
    assert isinstance(number, int)
    return number


def variable_of(over: Expr) -> int:
    """The loop of a `total`, a `largest` or a `var`."""
    return _id(over.data)


# ---- leaves -------------------------------------------------------------------------------------------------


def const(value: Number | bool) -> Expr:
    """A number."""
    return node("const", (), (value,), value, value)


ZERO, ONE, TRUE, FALSE = const(0), const(1), const(True), const(False)


def _bounds(dtype: Scalar) -> tuple[Number, Number]:
    if dtype.is_real:
        return -INFINITY, INFINITY
    if dtype.is_bool:
        return 0, 1
    low, high = bounds_of(dtype)
    return max(low, WIDE[0]), min(high, WIDE[1])


def bounds_of(dtype: Scalar) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = dtype.bits - dtype.is_signed
    return (-(2**bits) if dtype.is_signed else 0), 2**bits - 1


def argument(name: str, dtype: Scalar) -> Expr:
    """A scalar argument."""
    return node("arg", (), (name, dtype), *_bounds(dtype))


def shape(array: str, axis: int, dtype: Scalar = i32) -> Expr:
    """The extent of an array, which is read as a value of this type."""
    return node("shape", (), (array, axis), 0, min(bounds_of(dtype)[1], WIDE[1]))


def variable(number: int, low: Number, high: Number) -> Expr:
    """The index of a loop. low, high: where it lies."""
    return node("var", (), (number,), low, high)


def read(array: str, dtype: Scalar, indices: Iterable[Expr]) -> Expr:
    """An element."""
    return node("read", tuple(indices), (array, dtype), *_bounds(dtype))


def assume(expr: Expr, low: Number) -> Expr:
    """The same expression where it is known to be at least `low`."""
    if expr.low >= low:
        return expr
    return _made(**{**expr.__dict__, "low": low, "high": max(expr.high, low)})


def walk(expr: Expr) -> Iterable[Expr]:
    """Every node, arguments before the node itself."""
    for arg in expr.args:
        yield from walk(arg)
    yield expr
