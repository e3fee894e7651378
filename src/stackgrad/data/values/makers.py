"""Define class methods of `sg.Matrix` and `sg.Vector` that make constants, fields, ndarrays and tensors."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

import numpy as np

from ...runtime.usage_errors import MatrixError

if TYPE_CHECKING:
    from ...compiler.ir.types import Scalar
    from ..fields import MatrixField, MatrixNdarray
    from ..fields.kinds import FieldOptions, TensorOptions
    from .matrix import Matrix

    Shape = int | Sequence[int]
    DType = Scalar | type


def factory(module: str, name: str) -> Any:
    """Return a function that makes fields or ndarrays, imported by name to avoid a circular import."""
    return getattr(importlib.import_module(f"..{module}", __package__), name)


def extent(value: Any, name: str) -> int:
    """Return an extent of a vector or matrix as an int. Raise MatrixError if it is not a positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise MatrixError(f"{name} cannot be {value!r}", "extents are integers of 1 or more")
    return int(value)


class MatrixMakers:
    """Define the class methods of `sg.Matrix` that make matrices, fields and ndarrays."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Matrix"

    @classmethod
    def zero(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """Return an n x m matrix of zeros with entries of type `dt`, or a vector if m is None."""
        return cls._made(np.full(_shape(n, m), 0).tolist(), dt)

    @classmethod
    def one(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """Return an n x m matrix of ones with entries of type `dt`, or a vector if m is None."""
        return cls._made(np.full(_shape(n, m), 1).tolist(), dt)

    @classmethod
    def identity(cls, dt: DType | None, n: int) -> Matrix:
        """Return the identity matrix of n rows in the type `dt`."""
        return cls._made(np.eye(extent(n, "n"), dtype=np.int64).tolist(), dt)

    @classmethod
    def unit(cls, n: int, i: int, dt: DType | None = None) -> Matrix:
        """Return the i-th unit vector of n entries, counted from 0; the entries are integers unless `dt` is given."""
        if not 0 <= i < extent(n, "n"):
            raise MatrixError(f"there is no unit vector {i} of {n} entries", "count from 0")
        return cls._made([int(i == place) for place in range(n)], dt)

    @classmethod
    def diag(cls, dim: int, val: float) -> Matrix:
        """Return a square matrix with the number `val` on its diagonal."""
        return cls._made(np.diag([val] * extent(dim, "dim")).tolist(), None)

    @classmethod
    def rows(cls, rows: Sequence[Any]) -> Matrix:
        """Return the matrix with these rows. Raise MatrixError if their lengths differ."""
        made = cls._made(rows, None)
        if made.ndim != 2:
            raise MatrixError(f"a matrix of shape {made.shape}", "give vectors of one length")
        return made

    @classmethod
    def cols(cls, cols: Sequence[Any]) -> Matrix:
        """Return the matrix with these columns. Raise MatrixError if their lengths differ."""
        return cls.rows(cols).transpose()

    @staticmethod
    def _made(entries: Any, dtype: Any) -> Matrix:
        """Return a vector or matrix with these entries, converted to `dtype` if it is not None."""
        raise NotImplementedError

    @classmethod
    def field(
        cls, n: int, m: int, dtype: DType, shape: Shape | None = None, **options: Unpack[FieldOptions]
    ) -> MatrixField:
        """Return a new field of n x m matrices.

        Args:
            n: Number of rows.
            m: Number of columns.
            dtype: The scalar type of the entries.
            shape: An extent or a tuple of extents; None for a field that is placed later.
            **options: Options of `sg.field`, and layout=sg.Layout.AOS or SOA.
        """
        made: MatrixField = factory("fields", "matrix_field")(_shape(n, m), dtype, shape, **options)
        return made

    @classmethod
    def ndarray(cls, n: int, m: int, dtype: DType, shape: Shape, needs_grad: bool = False) -> MatrixNdarray:
        """Return a new ndarray of n x m matrices, filled with zeros."""
        made: MatrixNdarray = factory("ndarrays", "matrix_ndarray")(_shape(n, m), dtype, shape, needs_grad)
        return made

    @classmethod
    def tensor(
        cls, n: int, m: int, dtype: DType, shape: Shape, **options: Unpack[TensorOptions]
    ) -> MatrixField | MatrixNdarray:
        """Return a new ndarray of n x m matrices, or a field with backend=sg.Backend.FIELD; options as `sg.tensor`."""
        made: MatrixField | MatrixNdarray = factory("ndarrays", "matrix_tensor")(_shape(n, m), dtype, shape, **options)
        return made


class VectorMakers(MatrixMakers):
    """Define the class methods of `sg.Vector`, which take one extent where those of `sg.Matrix` take two."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Vector"

    @classmethod
    def field(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape | None = None, **options: Unpack[FieldOptions]
    ) -> MatrixField:
        """Return a new field of vectors.

        Args:
            n: Number of entries.
            dtype: The scalar type of the entries.
            shape: An extent or a tuple of extents; None for a field that is placed later.
            **options: Options of `sg.field`, and layout=sg.Layout.AOS or SOA.
        """
        made: MatrixField = factory("fields", "matrix_field")(_shape(n, None), dtype, shape, **options)
        return made

    @classmethod
    def ndarray(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape, needs_grad: bool = False
    ) -> MatrixNdarray:
        """Return a new ndarray of vectors of n entries, filled with zeros."""
        made: MatrixNdarray = factory("ndarrays", "matrix_ndarray")(_shape(n, None), dtype, shape, needs_grad)
        return made

    @classmethod
    def tensor(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape, **options: Unpack[TensorOptions]
    ) -> MatrixField | MatrixNdarray:
        """Return a new ndarray of vectors, or a field with backend=sg.Backend.FIELD; options as `sg.tensor`."""
        return cast("MatrixField", factory("ndarrays", "matrix_tensor")(_shape(n, None), dtype, shape, **options))


def _shape(n: int, m: int | None) -> tuple[int, ...]:
    return (extent(n, "n"),) if m is None else (extent(n, "n"), extent(m, "m"))
