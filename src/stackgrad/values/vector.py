"""Vectors outside kernels: matrices of one axis, with the makers that take their extent."""
from __future__ import annotations

from typing import Any

from ..compiler.ir.types import Scalar
from ..usage import MatrixError
from .makers import VectorMakers
from .matrix import Matrix, entries_of, typed


class Vector(VectorMakers, Matrix):
    """A vector of numbers. Made by `sg.Vector([1, 2, 3], dt=None)`; see Matrix. Raises MatrixError."""

    __slots__ = ()

    def __init__(self, entries: Any, dt: Scalar | type | None = None, *, dtype: Scalar | type | None = None) -> None:
        data, own = entries_of(entries)
        if data.ndim == 2 and data.shape[1] == 1:
            data = data[:, 0]
        if data.ndim != 1:
            raise MatrixError(f"a vector of shape {data.shape}", "give a list of numbers")
        self._set(*typed(data, own, dt if dt is not None else dtype))
