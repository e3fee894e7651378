"""What vectors and matrices can do: operators, reductions and linear algebra, the same names as inside kernels."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..usage import MatrixError
from . import operators

if TYPE_CHECKING:
    from ..compiler.ir.types import Scalar
    from .matrix import Matrix

_MOST_ROWS = 4


class Algebra:
    """Operations of a value with `data` and `dtype`."""

    __slots__ = ()
    data: np.ndarray
    dtype: Scalar | None

    # -- operators ------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Matrix:
        return operators.binary(np.add, self, other, "+")

    def __radd__(self, other: Any) -> Matrix:
        return operators.binary(np.add, other, self, "+")

    def __sub__(self, other: Any) -> Matrix:
        return operators.binary(np.subtract, self, other, "-")

    def __rsub__(self, other: Any) -> Matrix:
        return operators.binary(np.subtract, other, self, "-")

    def __mul__(self, other: Any) -> Matrix:
        return operators.binary(np.multiply, self, other, "*")

    def __rmul__(self, other: Any) -> Matrix:
        return operators.binary(np.multiply, other, self, "*")

    def __truediv__(self, other: Any) -> Matrix:
        return operators.binary(np.true_divide, self, other, "/")

    def __rtruediv__(self, other: Any) -> Matrix:
        return operators.binary(np.true_divide, other, self, "/")

    def __floordiv__(self, other: Any) -> Matrix:
        return operators.binary(np.floor_divide, self, other, "//")

    def __rfloordiv__(self, other: Any) -> Matrix:
        return operators.binary(np.floor_divide, other, self, "//")

    def __mod__(self, other: Any) -> Matrix:
        return operators.binary(np.mod, self, other, "%")

    def __rmod__(self, other: Any) -> Matrix:
        return operators.binary(np.mod, other, self, "%")

    def __pow__(self, other: Any) -> Matrix:
        return operators.binary(_power, self, other, "**")

    def __rpow__(self, other: Any) -> Matrix:
        return operators.binary(_power, other, self, "**")

    def __matmul__(self, other: Any) -> Any:
        return operators.product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return operators.product(other, self)

    def __and__(self, other: Any) -> Matrix:
        return operators.binary(np.bitwise_and, self, other, "&")

    __rand__ = __and__

    def __or__(self, other: Any) -> Matrix:
        return operators.binary(np.bitwise_or, self, other, "|")

    __ror__ = __or__

    def __xor__(self, other: Any) -> Matrix:
        return operators.binary(np.bitwise_xor, self, other, "^")

    __rxor__ = __xor__

    def __eq__(self, other: object) -> Matrix:  # type: ignore[override]
        return operators.binary(np.equal, self, other, "==")

    def __ne__(self, other: object) -> Matrix:  # type: ignore[override]
        return operators.binary(np.not_equal, self, other, "!=")

    def __lt__(self, other: Any) -> Matrix:
        return operators.binary(np.less, self, other, "<")

    def __le__(self, other: Any) -> Matrix:
        return operators.binary(np.less_equal, self, other, "<=")

    def __gt__(self, other: Any) -> Matrix:
        return operators.binary(np.greater, self, other, ">")

    def __ge__(self, other: Any) -> Matrix:
        return operators.binary(np.greater_equal, self, other, ">=")

    def __neg__(self) -> Matrix:
        return self._like(-_counted(self.data))

    def __pos__(self) -> Matrix:
        return self._like(self.data.copy())

    def __abs__(self) -> Matrix:
        return self._like(np.abs(_counted(self.data)))

    def __invert__(self) -> Matrix:
        if self.data.dtype.kind == "f":
            raise MatrixError("~ of real entries", "use it on integers")
        return self._like(~self.data)

    # -- reductions -----------------------------------------------------------------------------------------

    def sum(self) -> Any:
        """The sum of all entries."""
        return _counted(self.data).sum(dtype=_counted(self.data).dtype).item()

    def max(self) -> Any:
        """The largest entry."""
        return self.data.max().item()

    def min(self) -> Any:
        """The smallest entry."""
        return self.data.min().item()

    def any(self) -> bool:
        """Whether any entry is not 0."""
        return bool(self.data.any())

    def all(self) -> bool:
        """Whether no entry is 0."""
        return bool(self.data.all())

    def dot(self, other: Any) -> Any:
        """The inner product with a vector of the same shape."""
        return operators.binary(np.multiply, self, other, "dot").sum()

    def norm_sqr(self) -> Any:
        """The sum of the squares of the entries."""
        return (self * self).sum()

    def norm(self, eps: float = 0) -> float:
        """sqrt(sum of squares + eps)."""
        return float(np.sqrt(self.norm_sqr() + eps))

    def norm_inv(self, eps: float = 0) -> float:
        """1 / norm(eps)."""
        with np.errstate(all="ignore"):
            return float(1.0 / np.sqrt(np.float64(self.norm_sqr() + eps)))

    def normalized(self, eps: float = 0) -> Matrix:
        """The value divided by norm() + eps."""
        return self / (self.norm() + eps)

    # -- linear algebra -------------------------------------------------------------------------------------

    def cross(self, other: Any) -> Any:
        """The cross product: a vector in three dimensions, a number in two. Raises MatrixError otherwise."""
        x, y, typed = operators.pair(self, other, "cross") or (self.data, np.zeros(0), False)
        if x.shape == y.shape == (2,):
            return (x[0] * y[1] - x[1] * y[0]).item()
        if x.shape != (3,) or y.shape != (3,):
            raise MatrixError(f"cross of shapes {x.shape} and {y.shape}", "give two vectors of 3, or of 2, entries")
        return _wrap(np.roll(x, -1) * np.roll(y, -2) - np.roll(x, -2) * np.roll(y, -1), typed)

    def outer_product(self, other: Any) -> Matrix:
        """The matrix self[i] * other[j] of two vectors."""
        found = operators.data_of(other)
        if self.data.ndim != 1 or found is None or found[0].ndim != 1:
            raise MatrixError("outer_product of what is no vector", "give two vectors")
        return _wrap(np.multiply.outer(self.data, found[0]), self.dtype is not None)

    outer = outer_product

    def transpose(self) -> Matrix:
        """Rows and columns exchanged; a vector becomes a matrix of one row."""
        return self._like(self.data.T.copy() if self.data.ndim == 2 else self.data[None, :].copy())

    def trace(self) -> Any:
        """The sum of the diagonal of a square matrix."""
        return np.trace(self._square("trace")).item()

    def determinant(self) -> Any:
        """The determinant of a square matrix of at most 4 rows."""
        return _cofactors(self._square("determinant")).item()

    def inverse(self) -> Matrix:
        """The inverse of a square matrix of at most 4 rows; infinities and NaN if it is singular."""
        square = self._square("inverse")
        real = square if square.dtype.kind == "f" else square.astype(np.float64)
        return _wrap(_inverse(real), self.dtype is not None and square.dtype.kind == "f")

    def cast(self, dtype: Any) -> Matrix:
        """The value with entries of another type."""
        from .matrix import typed, wrap

        data, _ = typed(self.data, None, dtype)
        return wrap(data, True)

    def fill(self, value: Any) -> None:
        """Overwrite every entry with one number."""
        from .matrix import fitting

        self._write(..., fitting(value, ()))

    def copy(self) -> Matrix:
        """A copy with entries of its own."""
        return self._like(self.data.copy())

    def _write(self, place: Any, value: np.ndarray) -> None:
        raise NotImplementedError

    def _like(self, data: np.ndarray) -> Matrix:
        return _wrap(data, self.dtype is not None)

    def _square(self, what: str) -> np.ndarray:
        shape = self.data.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise MatrixError(f"{what} of shape {shape}", "it takes a square matrix")
        if what != "trace" and shape[0] > _MOST_ROWS:
            raise MatrixError(f"{what} of {shape[0]} rows", f"it takes at most {_MOST_ROWS}")
        return _counted(self.data)


def _wrap(data: np.ndarray, typed: bool) -> Matrix:
    from .matrix import wrap

    return wrap(data, typed)


def _counted(data: np.ndarray) -> np.ndarray:
    """Booleans as the integers they count as."""
    return data.astype(np.int32) if data.dtype.kind == "b" else data


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element-wise power; an integer to a negative power is real, as in Python."""
    if x.dtype.kind in "iu" and y.dtype.kind == "i" and (y < 0).any():
        x = x.astype(np.float64)
    made: np.ndarray = np.power(x, y)
    return made


def _cofactors(a: np.ndarray) -> Any:
    """The determinant by expansion along the first row: exact for integers."""
    if len(a) == 1:
        return a[0, 0]
    minors: Callable[[int], np.ndarray] = lambda j: np.delete(a[1:], j, axis=1)
    return sum((-1) ** j * a[0, j] * _cofactors(minors(j)) for j in range(len(a)))


def _inverse(a: np.ndarray) -> np.ndarray:
    """adj(a) / det(a)."""
    size = len(a)
    made = np.empty_like(a)
    for i in range(size):
        for j in range(size):
            minor = np.delete(np.delete(a, i, axis=0), j, axis=1)
            made[j, i] = (-1) ** (i + j) * (_cofactors(minor) if size > 1 else 1)
    with np.errstate(all="ignore"):
        inverse: np.ndarray = made / _cofactors(a)
    return inverse
