"""Define operators, reductions and linear algebra of host vectors and matrices, with the same names as in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.usage_errors import MatrixError
from ..dtypes import scalar_type
from . import operators

if TYPE_CHECKING:
    from ...compiler.ir.types import Scalar
    from .matrix import Matrix

_MOST_ROWS = 4


class Algebra:
    """Define operators and methods of host vectors and matrices, whose entries are the NumPy array `data`."""

    __slots__ = ()
    data: np.ndarray
    dtype: Scalar | None

    # Operands are Any: a value, an array, or a number of Python or NumPy. A reduced value is Any: an int, a float or a
    # bool, by the type of the entries.

    # -- operators ------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Matrix:
        return self._binary(np.add, self, other, "+")

    def __radd__(self, other: Any) -> Matrix:
        return self._binary(np.add, other, self, "+")

    def __sub__(self, other: Any) -> Matrix:
        return self._binary(np.subtract, self, other, "-")

    def __rsub__(self, other: Any) -> Matrix:
        return self._binary(np.subtract, other, self, "-")

    def __mul__(self, other: Any) -> Matrix:
        return self._binary(np.multiply, self, other, "*")

    def __rmul__(self, other: Any) -> Matrix:
        return self._binary(np.multiply, other, self, "*")

    def __truediv__(self, other: Any) -> Matrix:
        return self._binary(np.true_divide, self, other, "/")

    def __rtruediv__(self, other: Any) -> Matrix:
        return self._binary(np.true_divide, other, self, "/")

    def __floordiv__(self, other: Any) -> Matrix:
        return self._binary(np.floor_divide, self, other, "//")

    def __rfloordiv__(self, other: Any) -> Matrix:
        return self._binary(np.floor_divide, other, self, "//")

    def __mod__(self, other: Any) -> Matrix:
        return self._binary(np.mod, self, other, "%")

    def __rmod__(self, other: Any) -> Matrix:
        return self._binary(np.mod, other, self, "%")

    def __pow__(self, other: Any) -> Matrix:
        return self._binary(operators.power, self, other, "**")

    def __rpow__(self, other: Any) -> Matrix:
        return self._binary(operators.power, other, self, "**")

    def __matmul__(self, other: Any) -> Any:
        return self._product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._product(other, self)

    def __and__(self, other: Any) -> Matrix:
        return self._binary(np.bitwise_and, self, other, "&")

    __rand__ = __and__

    def __or__(self, other: Any) -> Matrix:
        return self._binary(np.bitwise_or, self, other, "|")

    __ror__ = __or__

    def __xor__(self, other: Any) -> Matrix:
        return self._binary(np.bitwise_xor, self, other, "^")

    __rxor__ = __xor__

    def __eq__(self, other: object) -> Matrix:  # type: ignore[override]
        return self._binary(np.equal, self, other, "==")

    def __ne__(self, other: object) -> Matrix:  # type: ignore[override]
        return self._binary(np.not_equal, self, other, "!=")

    def __lt__(self, other: Any) -> Matrix:
        return self._binary(np.less, self, other, "<")

    def __le__(self, other: Any) -> Matrix:
        return self._binary(np.less_equal, self, other, "<=")

    def __gt__(self, other: Any) -> Matrix:
        return self._binary(np.greater, self, other, ">")

    def __ge__(self, other: Any) -> Matrix:
        return self._binary(np.greater_equal, self, other, ">=")

    def __neg__(self) -> Matrix:
        return self._like(-operators.booleans_to_integers(self.data))

    def __pos__(self) -> Matrix:
        return self._like(self.data.copy())

    def __abs__(self) -> Matrix:
        return self._like(np.abs(operators.booleans_to_integers(self.data)))

    def __invert__(self) -> Matrix:
        if self.data.dtype.kind == "f":
            raise MatrixError("~ of real entries", "use it on integers")
        return self._like(~self.data)

    # -- reductions -----------------------------------------------------------------------------------------

    def sum(self) -> Any:
        """Return the sum of all entries."""
        return (
            operators.booleans_to_integers(self.data).sum(dtype=operators.booleans_to_integers(self.data).dtype).item()
        )

    def max(self) -> Any:
        """Return the largest entry."""
        return self.data.max().item()

    def min(self) -> Any:
        """Return the smallest entry."""
        return self.data.min().item()

    def any(self) -> bool:
        """Return True if any entry is not 0."""
        return bool(self.data.any())

    def all(self) -> bool:
        """Return True if no entry is 0."""
        return bool(self.data.all())

    def dot(self, other: Any) -> Any:
        """Return the inner product with a value of the same shape. Raise MatrixError if the shapes differ."""
        found = operators.binary(np.multiply, self, other, "dot")
        if found is None:
            raise MatrixError(f"dot with {other!r}", "give a vector")
        return operators.booleans_to_integers(found[0]).sum().item()

    def norm_sqr(self) -> Any:
        """Return the sum of the squares of the entries."""
        return (self * self).sum()

    def norm(self, eps: float = 0) -> float:
        """Return sqrt(sum of squares + eps)."""
        return float(np.sqrt(self.norm_sqr() + eps))

    def norm_inv(self, eps: float = 0) -> float:
        """Return 1 / norm(eps)."""
        with np.errstate(all="ignore"):
            return float(1.0 / np.sqrt(np.float64(self.norm_sqr() + eps)))

    def normalized(self, eps: float = 0) -> Matrix:
        """Return the value divided by norm() + eps."""
        return self / (self.norm() + eps)

    # -- linear algebra -------------------------------------------------------------------------------------

    def cross(self, other: Any) -> Any:
        """Return the cross product: a vector in three dimensions, a number in two. Raise MatrixError otherwise."""
        x, y, typed = operators.operand_pair(self, other, "cross") or (self.data, np.zeros(0), False)
        if x.shape == y.shape == (2,):
            return (x[0] * y[1] - x[1] * y[0]).item()
        if x.shape != (3,) or y.shape != (3,):
            raise MatrixError(f"cross of shapes {x.shape} and {y.shape}", "give two vectors of 3, or of 2, entries")
        return self._wrap(np.roll(x, -1) * np.roll(y, -2) - np.roll(x, -2) * np.roll(y, -1), typed)

    def outer_product(self, other: Any) -> Matrix:
        """Return the matrix self[i] * other[j] of two vectors. Raise MatrixError if one is no vector."""
        found = operators.data_of(other)
        if self.data.ndim != 1 or found is None or found[0].ndim != 1:
            raise MatrixError("outer_product of what is no vector", "give two vectors")
        return self._wrap(np.multiply.outer(self.data, found[0]), self.dtype is not None)

    outer = outer_product

    def transpose(self) -> Matrix:
        """Return the value with rows and columns exchanged; a vector becomes a matrix of one row."""
        return self._like(self.data.T.copy() if self.data.ndim == 2 else self.data[None, :].copy())

    def trace(self) -> Any:
        """Return the sum of the diagonal of a square matrix. Raise MatrixError if it is not square."""
        return np.trace(self._square("trace")).item()

    def determinant(self) -> Any:
        """Return the determinant of a square matrix of at most 4 rows. Raise MatrixError for other values."""
        return operators.determinant(self._square("determinant")).item()

    def inverse(self) -> Matrix:
        """Return the inverse of a square matrix of at most 4 rows; infinities and NaN if it is singular.

        Raises MatrixError for other values.
        """
        square = self._square("inverse")
        real = square if square.dtype.kind == "f" else square.astype(np.float64)
        return self._wrap(operators.inverse(real), self.dtype is not None and square.dtype.kind == "f")

    def cast(self, dtype: Any) -> Matrix:
        """Return the value with entries of another scalar type."""
        wanted = scalar_type(dtype)
        with np.errstate(all="ignore"):
            return self._wrap(self.data.astype(wanted.dtype), True)

    def fill(self, value: Any) -> None:
        """Overwrite every entry with one number."""
        self._write(..., operators.fit_entries(value, ()))

    def copy(self) -> Matrix:
        """Return a copy that does not share memory with the original."""
        return self._like(self.data.copy())

    # -- what is made ---------------------------------------------------------------------------------------

    @staticmethod
    def _wrap(data: np.ndarray, is_typed: bool) -> Matrix:
        """Return a vector or matrix with these entries; if `is_typed`, their dtype is kept in arithmetic."""
        raise NotImplementedError

    def _write(self, place: Any, value: np.ndarray) -> None:
        """Overwrite the entries at an index; subclasses implement this method."""
        raise NotImplementedError

    def _like(self, data: np.ndarray) -> Matrix:
        return self._wrap(data, self.dtype is not None)

    def _binary(self, function: Callable[[Any, Any], Any], a: Any, b: Any, what: str) -> Matrix:
        found = operators.binary(function, a, b, what)
        return NotImplemented if found is None else self._wrap(*found)

    def _product(self, a: Any, b: Any) -> Any:
        found = operators.matrix_product(a, b)
        if found is None:
            return NotImplemented
        return self._wrap(*found) if found[0].ndim else found[0].item()

    def _square(self, what: str) -> np.ndarray:
        """Return the entries of a square matrix. Raise MatrixError if the value is not square, or is too large."""
        shape = self.data.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise MatrixError(f"{what} of shape {shape}", "it takes a square matrix")
        if what != "trace" and shape[0] > _MOST_ROWS:
            raise MatrixError(f"{what} of {shape[0]} rows", f"it takes at most {_MOST_ROWS}")
        return operators.booleans_to_integers(self.data)
