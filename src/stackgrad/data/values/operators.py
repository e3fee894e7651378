"""Implement arithmetic of vectors and matrices outside of kernels: checks of shapes, and types of results.

Invariant: a value without an explicit scalar type is treated like Python numbers: combined with a typed value, it takes
the type of that value if both are real or both are integers. Shapes are equal, or one operand is a number; nothing else
is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.usage_errors import MatrixError

Result = tuple[Any, bool]
"""The entries of a result, and True if their type is their own."""
_WEAK: dict[str, Any] = {"f": 1.0, "i": 1, "u": 1, "b": False}
"""A Python number of each kind, which NumPy's promotion treats as having no type of its own."""


def is_matrix(value: object) -> bool:
    """Return True if a value is a vector or matrix of the host."""
    return getattr(value, "is_stackgrad_matrix", False) is True


def is_number(value: object) -> bool:
    """Return True if a value counts as a single number in arithmetic."""
    return isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating)


def data_of(value: Any) -> tuple[np.ndarray, bool] | None:
    """Return an operand as an array, and True if it has an explicit scalar type; None if it cannot be an operand."""
    if is_matrix(value):
        return value.data, value.dtype is not None
    if is_number(value) or isinstance(value, (list, tuple, np.ndarray)):
        found = untyped_numbers(np.asarray(value))
        return (found, False) if found.dtype.kind in "fiub" else None
    return None


def untyped_numbers(data: np.ndarray) -> np.ndarray:
    """Return numbers without an explicit scalar type as float64 or int64, the precision of Python's numbers."""
    wide = {"f": np.float64, "i": np.int64}.get(data.dtype.kind)
    return data if wide is None else data.astype(wide, copy=False)


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
"""Operations that compare a vector with each row of a matrix, as NumPy does."""


def operand_pair(a: Any, b: Any, what: str) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Return both operands as arrays, and True if the result has an explicit type; None if one is no operand.

    Args:
        a: The left operand.
        b: The right operand.
        what: The name of the operation for messages.

    Raises:
        MatrixError: The shapes differ. A vector may be compared with a matrix whose rows have its length.
    """
    left, right = data_of(a), data_of(b)
    if left is None or right is None:
        return None
    (x, x_typed), (y, y_typed) = left, right
    if x.ndim and y.ndim and x.shape != y.shape and not (what in COMPARISONS and x.shape[-1] == y.shape[-1]):
        raise MatrixError(f"{what} of shapes {x.shape} and {y.shape}", "give both operands one shape, or one a number")
    if x_typed and not y_typed:
        y = y.astype(np.result_type(x.dtype, _WEAK[y.dtype.kind]))
    elif y_typed and not x_typed:
        x = x.astype(np.result_type(y.dtype, _WEAK[x.dtype.kind]))
    return x, y, x_typed or y_typed


def binary(function: Callable[[Any, Any], Any], a: Any, b: Any, what: str) -> Result | None:
    """Return the result of an element-wise operation, or None if one operand is no number, vector or matrix.

    Args:
        function: The function of two arrays.
        a: The left operand.
        b: The right operand.
        what: The name of the operation for messages.

    Raises:
        MatrixError: The shapes differ.
    """
    operands = operand_pair(a, b, what)
    if operands is None:
        return None
    x, y, typed = operands
    if x.dtype.kind == y.dtype.kind == "b" and function in _COUNTING:
        x, y = x.astype(np.int32), y.astype(np.int32)
    with np.errstate(all="ignore"):
        return function(x, y), typed


_COUNTING = (np.add, np.subtract, np.multiply)


def matrix_product(a: Any, b: Any) -> Result | None:
    """Return the product `a @ b` of matrices or vectors, or None if one operand is neither.

    Raises:
        MatrixError: The inner extents differ, or an operand is a number.
    """
    left, right = data_of(a), data_of(b)
    if left is None or right is None:
        return None
    (x, x_typed), (y, y_typed) = left, right
    if not x.ndim or not y.ndim:
        raise MatrixError("@ takes matrices and vectors, not numbers", "use * for numbers")
    if x.shape[-1] != y.shape[0]:
        raise MatrixError(f"@ of shapes {x.shape} and {y.shape}", "the inner extents are equal")
    return np.matmul(x, y), x_typed or y_typed


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the element-wise power; an integer to a negative power is real, as in Python."""
    if x.dtype.kind in "iu" and y.dtype.kind == "i" and (y < 0).any():
        x = x.astype(np.float64)
    made: np.ndarray = np.power(x, y)
    return made


def booleans_to_integers(data: np.ndarray) -> np.ndarray:
    """Return booleans converted to integers, and other arrays unchanged."""
    return data.astype(np.int32) if data.dtype.kind == "b" else data


def determinant(a: np.ndarray) -> Any:
    """Return the determinant by expansion along the first row, which is exact for integers."""
    if len(a) == 1:
        return a[0, 0]
    return sum((-1) ** j * a[0, j] * determinant(np.delete(a[1:], j, axis=1)) for j in range(len(a)))


def inverse(a: np.ndarray) -> np.ndarray:
    """Return the inverse of a matrix, computed as its adjugate divided by its determinant."""
    size = len(a)
    made = np.empty_like(a)
    for i in range(size):
        for j in range(size):
            minor = np.delete(np.delete(a, i, axis=0), j, axis=1)
            made[j, i] = (-1) ** (i + j) * (determinant(minor) if size > 1 else 1)
    with np.errstate(all="ignore"):
        found: np.ndarray = made / determinant(a)
    return found


def fit_entries(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a value as an array that can overwrite entries of this shape. Raise MatrixError if it does not fit."""
    found = data_of(value)
    if found is None or found[0].shape not in ((), shape):
        what = "no number" if found is None else f"of shape {found[0].shape}"
        raise MatrixError(f"{value!r} is {what}, the entries have shape {shape}", "give one value for each entry")
    return found[0]
