"""Arithmetic of host vectors and matrices: which arrays meet, in which type, and what comes of it.

Invariant: a value without a type of its own counts as Python numbers do: beside a typed one it takes that one's type, as
long as the kind (real, integer) stays. Shapes are equal, or one side is a number; nothing is broadcast silently.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..usage import MatrixError

if TYPE_CHECKING:
    from .matrix import Matrix

_WEAK: dict[str, Any] = {"f": 1.0, "i": 1, "u": 1, "b": False}


def is_number(value: object) -> bool:
    """Whether a value takes part in arithmetic as one number."""
    return isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating)


def data_of(value: Any) -> tuple[np.ndarray, bool] | None:
    """The array of an operand, and whether its type is its own; None for what is no operand."""
    from .matrix import Matrix

    if isinstance(value, Matrix):
        return value.data, value.dtype is not None
    if is_number(value):
        return np.asarray(value), isinstance(value, np.generic)
    if isinstance(value, (list, tuple)):
        found = np.asarray(value)
        return (found, False) if found.dtype.kind in "fiub" else None
    if isinstance(value, np.ndarray):
        return value, True
    return None


def pair(a: Any, b: Any, what: str) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Both operands as arrays that fit, and whether the result is typed. Raises MatrixError for unequal shapes."""
    found = data_of(a), data_of(b)
    if found[0] is None or found[1] is None:
        return None
    (x, x_typed), (y, y_typed) = found  # type: ignore[misc]
    if x.ndim and y.ndim and x.shape != y.shape:
        raise MatrixError(f"{what} of shapes {x.shape} and {y.shape}", "give both operands one shape, or one a number")
    if x_typed and not y_typed:
        y = y.astype(np.result_type(x.dtype, _WEAK[y.dtype.kind]))
    elif y_typed and not x_typed:
        x = x.astype(np.result_type(y.dtype, _WEAK[x.dtype.kind]))
    return x, y, x_typed or y_typed


def binary(function: Callable[[Any, Any], Any], a: Any, b: Any, what: str) -> Matrix:
    """An element-wise operation; NotImplemented where an operand is none of ours."""
    from .matrix import wrap

    operands = pair(a, b, what)
    if operands is None:
        return NotImplemented
    x, y, typed = operands
    if x.dtype.kind == y.dtype.kind == "b" and function in _COUNTING:
        x, y = x.astype(np.int32), y.astype(np.int32)
    with np.errstate(all="ignore"):
        return wrap(function(x, y), typed)


_COUNTING = (np.add, np.subtract, np.multiply, np.negative)


def product(a: Any, b: Any) -> Matrix | float | int:
    """`a @ b`: matrix times matrix or vector, vector times matrix. Raises MatrixError for extents that do not meet."""
    from .matrix import wrap

    found = data_of(a), data_of(b)
    if found[0] is None or found[1] is None:
        return NotImplemented
    (x, x_typed), (y, y_typed) = found  # type: ignore[misc]
    if not x.ndim or not y.ndim:
        raise MatrixError("@ takes matrices and vectors, not numbers", "use * for numbers")
    if x.shape[-1] != y.shape[0]:
        raise MatrixError(f"@ of shapes {x.shape} and {y.shape}", "the inner extents are equal")
    made = np.matmul(x, y)
    return wrap(made, x_typed or y_typed) if made.ndim else made.item()
