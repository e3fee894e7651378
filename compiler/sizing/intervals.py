"""Compute an interval of integers for each value of a task, from the arguments and array shapes of a launch.

An interval (low, high) is closed and sound: the value lies inside it in every execution. A value that is not understood
has the interval (-inf, inf). The index of a loop is bounded by the intervals of the loop's ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import nodes as n
from ..ir.nodes import Stmt, Task, Value
from ..ir.ops import OPS
from ..ir.table import Table
from ..ir.walk import operands, results, walk_task

Number = int | float
Interval = tuple[Number, Number]
INFINITY = float("inf")
ALL: Interval = (-INFINITY, INFINITY)
EMPTY: Interval = (INFINITY, -INFINITY)


def is_empty(interval: Interval) -> bool:
    """Return True if the interval holds no number, which means that the value is never computed."""
    return interval[0] > interval[1]


def union(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that holds both intervals."""
    return min(a[0], b[0]), max(a[1], b[1])


def _products(a: Interval, b: Interval, op: Callable[[Number, Number], Number]) -> Interval:
    """Return the interval between the least and the greatest result at the ends of two intervals."""
    if ALL in (a, b) or any(abs(v) == INFINITY for v in (*a, *b)):
        return ALL
    ends = [op(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _mod(a: Interval, b: Interval) -> Interval:
    """Return the interval of x mod m for a positive m: that of x if it lies in [0, m-1], and else [0, m-1]."""
    if b[0] <= 0:
        return ALL
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _floordiv(a: Interval, b: Interval) -> Interval:
    """Return the interval of a floor division by a positive divisor."""
    return _products(a, b, lambda x, y: x // y) if b[0] > 0 else ALL


def _absolute(a: Interval) -> Interval:
    """Return the interval of absolute values."""
    low, high = sorted((abs(a[0]), abs(a[1])))
    return (0 if a[0] <= 0 <= a[1] else low), high


def _bit_and(a: Interval, b: Interval) -> Interval:
    """Return the interval of `x and m` for a mask m that is not negative: it lies between 0 and m."""
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else ALL


def _bit_or(a: Interval, b: Interval) -> Interval:
    """Return the interval of `x or y` of numbers that are not negative: no bit is above the highest bit of both."""
    high = max(a[1], b[1])
    return (max(a[0], b[0]), (1 << int(high).bit_length()) - 1) if min(a[0], b[0]) >= 0 and high < INFINITY else ALL


def _bit_xor(a: Interval, b: Interval) -> Interval:
    """Return the interval of `x xor y` of numbers that are not negative."""
    found = _bit_or(a, b)
    return found if found == ALL else (0, found[1])


def _shift(a: Interval, b: Interval, op: Callable[[int, int], int]) -> Interval:
    """Return the interval of a shift `op` of non-negative numbers by a known count.

    The count must be below the width of every type.
    """
    if b[0] != b[1] or not 0 <= b[0] < 8 or a[0] < 0 or a[1] == INFINITY:
        return ALL
    return op(int(a[0]), int(b[0])), op(int(a[1]), int(b[0]))


def _right(a: Interval, b: Interval) -> Interval:
    """Return an interval that contains x >> y for all x in `a` and y in `b`."""
    return _shift(a, b, lambda x, y: x >> y)


OPERATIONS: Table[str, Callable[[Interval, Interval], Interval]] = Table(
    "sizing.intervals",
    OPS,
    about="the interval of the result in one launch, for adstack sizes",
    optional="the interval is that of the type",
)
"""The interval of the result for operations of two operands; every other operation gives ALL."""
OPERATIONS.update(
    {
        "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
        "mul": lambda a, b: _products(a, b, lambda x, y: x * y),
        "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
        "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
        "mod": _mod,
        "floordiv": _floordiv,
        "bit_and": _bit_and,
        "bit_or": _bit_or,
        "bit_xor": _bit_xor,
        "bit_shl": lambda a, b: _shift(a, b, lambda x, y: x << y),
        "bit_shr": _right,
        "bit_sar": _right,
    }
)


class Intervals:
    """Compute the interval in which each value of one task lies, for the arguments of one launch.

    Attributes:
        scalars: Arguments by name.
        shapes: Extents by name of the array.
        made: The statement that defines each value.
        known: The intervals found so far.
    """

    def __init__(self, task: Task, scalars: Mapping[str, Number], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.scalars = scalars
        self.shapes = shapes
        self.made: dict[Value, Stmt] = {v: s for s in walk_task(task) for v in results(s)}
        self.known: dict[Value, Interval] = {}
        for index, begin, end in zip(task.indices, task.begin, task.end):
            self.known[index] = (self.of(begin)[0], self.of(end)[1] - 1)

    def of(self, value: Value) -> Interval:
        """Return the interval of an integer value. A value that may overflow has an unbounded interval."""
        pending = [] if value in self.known else [value]
        # Operands come first, without recursion: a chain of sums may be longer than the stack of the interpreter.
        while pending:
            stmt = self.made.get(pending[-1])
            inputs = operands(stmt) if isinstance(stmt, (n.Op, n.Cast, n.Within, n.For)) else ()
            missing = [v for v in inputs if v.type.is_int and v not in self.known]
            if not missing:
                self.known[pending[-1]] = self._within(pending[-1], self._find(pending[-1]))
                pending.pop()
            pending += missing
        return self.known[value]

    @staticmethod
    def _within(value: Value, found: Interval) -> Interval:
        """Return the interval, or ALL if it exceeds the range of the type, because the value may then have wrapped."""
        if not value.type.is_int or is_empty(found) or found == ALL:
            return found
        low, high = (-(2 ** (value.type.bits - 1)), 2 ** (value.type.bits - 1) - 1)
        if not value.type.is_signed:
            low, high = 0, 2**value.type.bits - 1
        return found if low <= found[0] and found[1] <= high else ALL

    def _find(self, value: Value) -> Interval:
        """Return the interval of a value, computed from the known intervals of the operands."""
        stmt = self.made.get(value)
        if not value.type.is_int:
            return ALL
        if isinstance(stmt, n.Const):
            return int(stmt.value), int(stmt.value)
        if isinstance(stmt, n.Arg):
            known = self.scalars.get(stmt.name)
            return ALL if known is None else (int(known), int(known))
        if isinstance(stmt, n.Shape):
            extent = self.shapes[stmt.array][stmt.axis]
            return extent, extent
        if isinstance(stmt, n.Cast):
            return self.of(stmt.arg) if stmt.arg.type.is_int else ALL
        if isinstance(stmt, n.Within):
            return self.of(stmt.index)
        if isinstance(stmt, n.For) and value == stmt.index:
            return self._index(stmt)
        return self._op(stmt) if isinstance(stmt, n.Op) else ALL

    def _index(self, loop: n.For) -> Interval:
        """Return the interval of the index of a loop."""
        begin, end = self.of(loop.begin), self.of(loop.end)
        return (begin[0], end[1] - 1) if loop.step > 0 else (end[0] + 1, begin[1])

    def _op(self, stmt: n.Op) -> Interval:
        """Return the interval of the result of an operation, computed from those of its operands."""
        if stmt.op == "select":
            return union(self.of(stmt.args[1]), self.of(stmt.args[2]))
        if stmt.op == "neg":
            low, high = self.of(stmt.args[0])
            return -high, -low
        if stmt.op in ("abs", "unique"):
            found = self.of(stmt.args[0])
            return _absolute(found) if stmt.op == "abs" and not is_empty(found) else found
        if stmt.op not in OPERATIONS or stmt.op == "bit_sar" and not stmt.result.type.is_signed:
            return ALL
        a, b = (self.of(v) for v in stmt.args)
        if is_empty(a) or is_empty(b):
            return EMPTY
        return OPERATIONS[stmt.op](a, b)
