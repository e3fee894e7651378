"""Evaluate size expressions on NumPy arrays, for all points of a range at a time.

Numbers are integers of Python, and results saturate at the ends of 64 bits, as sums over ranges do. InexactSizes is
raised in a state that an expression does not describe: an index outside its array, a divisor of 0, or other arithmetic
of vectors that leaves 64 bits. Then the counting kernel finds the depths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..analysis.intervals import INFINITY
from ..ir.build import normal_constant
from .expressions import INT64, KINDS, SAFE_PRODUCT, SizeExpr, variable_of
from .sizes import KernelSizes

CHUNK = 1 << 15
"""Number of points of a range that are evaluated together."""

Values = Any
"""A number, or an array with one number for each point."""


class InexactSizes(Exception):
    """This error means that size expressions are not valid for the present arguments and array contents."""


class TooManyPoints(Exception):
    """Signal that sums or maxima would be evaluated at more points of their ranges than the caller permits."""


class Evaluator:
    """This class evaluates size expressions for the arrays and scalar arguments of a launch.

    Attributes:
        arrays: The arrays by name.
        scalars: The scalar arguments by name.
        points: Number of points of ranges that may still be evaluated.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, int | float | bool], points: float = INFINITY
    ) -> None:
        self.arrays = arrays
        self.scalars = scalars
        self.points = points
        self._numbers: dict[SizeExpr, int] = {}

    def look(self, points: int) -> None:
        """Deduct `points` from the budget of points to evaluate; raise TooManyPoints if the budget gets negative.

        Raises:
            TooManyPoints: There are more points than the caller wants.
        """
        self.points -= points
        if self.points < 0:
            raise TooManyPoints

    def number(self, expr: SizeExpr) -> int:
        """Return the value of an expression without free indices, saturated at the ends of 64 bits.

        Raises:
            InexactSizes: The expression does not describe the present state.
        """
        # Adstacks of one loop ask for the same expression.
        known = self._numbers.get(expr)
        if known is None:
            known = self._numbers[expr] = min(max(int(self.at(expr, {})), INT64[0]), INT64[1])
        return known

    def at(self, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
        """Return the value of an expression at each point, that is for each combination of loop indices.

        Args:
            expr: The expression.
            points: For the number of each loop around, a vector with the index of that loop at each point.
        """
        return EVALUATE[expr.kind](self, expr, points)

    def all_at(self, expr: SizeExpr, points: dict[int, np.ndarray]) -> list[Values]:
        """Return the values of all arguments of an expression, each at all points."""
        return [self.at(arg, points) for arg in expr.args]


def sizes(
    sized: KernelSizes,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, int | float | bool],
    points: float = INFINITY,
) -> list[int]:
    """Return the values of a kernel's size expressions: depths, their sums over all iterations, numbers of rows.

    Args:
        sized: The size expressions of the kernel.
        arrays: The arrays of the launch by name.
        scalars: The scalar arguments of the launch by name.
        points: Number of points of ranges that may be evaluated.

    Raises:
        InexactSizes: The expressions do not describe the present state.
        TooManyPoints: There are more points to evaluate.
    """
    evaluator = Evaluator(arrays, scalars, points)
    for value, most in sized.limits:
        if evaluator.number(value) > most:
            raise InexactSizes
    return [evaluator.number(x) for x in (*sized.depths, *sized.totals, *sized.rows)]


# ---- arithmetic ---------------------------------------------------------------------------------------------


def add(x: Values, y: Values) -> Values:
    """Return the exact sum of numbers or vectors. Raise InexactSizes if an element of a vector exceeds 64 bits."""
    if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray):
        return int(x) + int(y)
    _fit(x, y)
    with np.errstate(over="ignore"):
        made = np.add(x, y)
    # A sum of two numbers has wrapped around if its sign differs from the signs of both.
    if (((x ^ made) & (y ^ made)) < 0).any():
        raise InexactSizes
    return made


def mul(x: Values, y: Values) -> Values:
    """Return the exact product of numbers or vectors. Raise InexactSizes if an element exceeds 64 bits."""
    if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray):
        return int(x) * int(y)
    _fit(x, y)
    with np.errstate(over="ignore"):
        made = np.multiply(x, y)
    if (np.abs(np.multiply(x, y, dtype=np.float64)) >= SAFE_PRODUCT).any():
        raise InexactSizes
    return made


def _fit(*values: Values) -> None:
    """Raise InexactSizes if a number does not fit into 64 bits."""
    for value in values:
        if isinstance(value, int) and not INT64[0] <= value <= INT64[1]:
            raise InexactSizes


def _saturated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the sums of non-negative numbers, clamped to the largest 64-bit integer."""
    with np.errstate(over="ignore"):
        made = np.add(x, y)
    return np.where((made ^ x) & (made ^ y) < 0, INT64[1], made)


def _divided(operation: Callable[..., Values]) -> Callable[[Evaluator, SizeExpr, dict[int, np.ndarray]], Values]:
    """Return the function that evaluates a division or remainder node; it raises InexactSizes if a divisor is 0."""

    def divide(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
        x, y = self.all_at(expr, points)
        if np.any(np.equal(y, 0)):
            raise InexactSizes
        return operation(x, y)

    return divide


def _sum(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the value of a weighted sum at each point, that is for each combination of loop indices."""
    constant, *factors = expr.data
    made: Values = constant
    for arg, factor in zip(expr.args, factors):
        made = add(made, mul(self.at(arg, points), factor))
    return made


def _product(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the value of a product at each point, that is for each combination of loop indices."""
    made: Values = 1
    for value in self.all_at(expr, points):
        made = mul(made, value)
    return made


def _fold(pair: Callable[..., Values], plain: Callable[..., Values]) -> Callable[..., Values]:
    """Return the function that evaluates a max or min node: `pair` combines two vectors, `plain` combines numbers."""

    def fold(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
        values = self.all_at(expr, points)
        made = values[0]
        for value in values[1:]:
            array = isinstance(made, np.ndarray) or isinstance(value, np.ndarray)
            made = pair(made, value) if array else plain(made, value)
        return made

    return fold


# ---- leaves -------------------------------------------------------------------------------------------------


def _shape(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the extent of an array. Raise InexactSizes if it exceeds the bound that size expressions assume."""
    array, axis = expr.data
    assert isinstance(axis, int)
    extent: int = self.arrays[str(array)].shape[axis]
    if extent > expr.high:
        raise InexactSizes
    return extent


def _read(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the array element that a node reads at each point. Raise InexactSizes if an index is out of bounds."""
    array = self.arrays[str(expr.data[0])]
    indices = self.all_at(expr, points)
    for index, extent in zip(indices, array.shape):
        if np.any(np.less(index, 0)) or np.any(np.greater_equal(index, extent)):
            raise InexactSizes
    found = array[tuple(indices)]
    if isinstance(found, np.ndarray) and found.ndim:
        return found.astype(np.int64) if found.dtype.kind in "iu" else found
    return found.astype(np.int64).item() if found.dtype.kind in "iu" else found.item()


# ---- choices ------------------------------------------------------------------------------------------------


def _at_some(points: dict[int, np.ndarray], chosen: np.ndarray) -> dict[int, np.ndarray]:
    """Return the index values of the points that a mask selects."""
    return {k: v[chosen] for k, v in points.items()}


def _when(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the value of a conditional at each point; each side is evaluated only at the points that select it."""
    condition, x, y = expr.args
    holds = self.at(condition, points)
    if not isinstance(holds, np.ndarray):
        return self.at(x if holds else y, points)
    made = np.empty(holds.shape, np.int64)
    for chosen, value in ((holds, x), (~holds, y)):
        if chosen.any():
            made[chosen] = self.at(value, _at_some(points, chosen))
    return made


def _junction(decisive: bool) -> Callable[[Evaluator, SizeExpr, dict[int, np.ndarray]], Values]:
    """Return the function that evaluates `and` or `or`, each part only at points that earlier parts do not decide."""

    def junction(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
        known: Values = not decisive
        for arg in expr.args:
            if not isinstance(known, np.ndarray):
                if known is decisive or known == decisive:
                    return decisive
                known = self.at(arg, points)
                continue
            left = known != decisive
            if left.any():
                known = known.copy()
                known[left] = self.at(arg, _at_some(points, left))
        return known

    return junction


def _compare(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the result of a comparison of floating-point values at each point."""
    x, y = self.all_at(expr, points)
    with np.errstate(invalid="ignore"):
        return COMPARISONS[str(expr.data[0])](x, y)


COMPARISONS: dict[str, Callable[..., Values]] = {
    "cmp_lt": lambda x, y: x < y,
    "cmp_le": lambda x, y: x <= y,
    "cmp_eq": lambda x, y: x == y,
    "cmp_ne": lambda x, y: x != y,
}
"""The comparisons of reals."""


def _not(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the negation of a condition at each point."""
    value = self.at(expr.args[0], points)
    return ~value if isinstance(value, np.ndarray) else not value


# ---- ranges -------------------------------------------------------------------------------------------------


def _over(self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray]) -> Values:
    """Return the value of a sum or maximum over a range at each point; the range may depend on the point."""
    begin, end = self.at(expr.args[0], points), self.at(expr.args[1], points)
    one = not isinstance(begin, np.ndarray) and not isinstance(end, np.ndarray)
    if one and not points:
        return _over_one(self, expr, int(begin), int(end))
    count = next(iter(points.values())).size if points else np.broadcast(begin, end).size
    begins = np.broadcast_to(np.asarray(begin, np.int64), (count,))
    ends = np.broadcast_to(np.asarray(end, np.int64), (count,))
    return _over_many(self, expr, points, begins, np.maximum(ends - begins, 0))


def _over_one(self: Evaluator, expr: SizeExpr, begin: int, end: int) -> int:
    """Return the sum or maximum over one range that all points share, evaluated a chunk at a time."""
    self.look(max(end - begin, 0))
    number, sums, made = variable_of(expr), expr.kind == "total", 0
    for first in range(begin, end, CHUNK):
        index = np.arange(first, min(first + CHUNK, end), dtype=np.int64)
        values = self.at(expr.args[2], {number: index})
        if sums:
            made += _added(values, index.size)
        else:
            made = max(made, int(np.max(values)))
    return min(made, INT64[1])


def _added(values: Values, count: int) -> int:
    """Return the sum of `count` values, given as a vector or as one number for all points."""
    if not isinstance(values, np.ndarray):
        return int(values) * count
    # NumPy adds in 64 bits, so it may add only numbers whose sum surely fits.
    if abs(float(values.max())) * values.size < 2.0**62 and values.min() >= -(2**31):
        return int(values.sum())
    return sum(values.tolist())


def _over_many(
    self: Evaluator, expr: SizeExpr, points: dict[int, np.ndarray], begins: np.ndarray, counts: np.ndarray
) -> Values:
    """Return the sums or maxima over a separate range for each point, evaluated in chunks of all ranges together.

    Args:
        self: The evaluator, which knows arrays and arguments.
        expr: The node of the sum or maximum.
        points: The indices of the loops around.
        begins: The first index of the range of each point.
        counts: The number of points of each range.
    """
    number, sums = variable_of(expr), expr.kind == "total"
    made = np.zeros(begins.size, np.int64)
    ends = np.cumsum(counts)
    self.look(int(ends[-1]) if ends.size else 0)
    for first in range(0, int(ends[-1]) if ends.size else 0, CHUNK):
        at = np.arange(first, min(first + CHUNK, int(ends[-1])), dtype=np.int64)
        # The owner of a point of the row is the number of the range that it belongs to.
        owner = np.searchsorted(ends, at, "right")
        index = at - (ends - counts)[owner] + begins[owner]
        inner = {k: v[owner] for k, v in points.items()} | {number: index}
        values = np.broadcast_to(np.asarray(self.at(expr.args[2], inner), np.int64), at.shape)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        if sums:
            made[owner[starts]] = _saturated(made[owner[starts]], np.add.reduceat(values, starts))
        else:
            made[owner[starts]] = np.maximum(made[owner[starts]], np.maximum.reduceat(values, starts))
    return made


EVALUATE: dict[str, Callable[[Evaluator, SizeExpr, dict[int, np.ndarray]], Values]] = {
    "const": lambda self, expr, _: expr.data[0],
    "arg": lambda self, expr, _: normal_constant(self.scalars[str(expr.data[0])], expr.data[1]),  # type: ignore[arg-type]
    "var": lambda self, expr, points: points[variable_of(expr)],
    "shape": _shape,
    "read": _read,
    "sum": _sum,
    "product": _product,
    "floordiv": _divided(lambda x, y: x // y),
    "mod": _divided(lambda x, y: x % y),
    "max": _fold(np.maximum, max),
    "min": _fold(np.minimum, min),
    "when": _when,
    "total": _over,
    "largest": _over,
    "positive": lambda self, expr, points: self.at(expr.args[0], points) > 0,
    "zero": lambda self, expr, points: self.at(expr.args[0], points) == 0,
    "compare": _compare,
    "not": _not,
    "and": _junction(False),
    "or": _junction(True),
}
"""The evaluation of each kind of expression."""

assert EVALUATE.keys() == KINDS.keys()
