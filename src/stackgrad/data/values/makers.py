"""Define the class methods of `sg.Matrix` and `sg.Vector`: constants, fields, ndarrays and tensors of such elements."""

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
    """Return a factory of fields or ndarrays by its name, imported late because its module imports the values."""
    return getattr(importlib.import_module(f"..{module}", __package__), name)


def extent(value: Any, name: str) -> int:
    """Return an extent of a vector or matrix as an int. Raise MatrixError if it is no integer of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise MatrixError(f"{name} cannot be {value!r}", "extents are integers of 1 or more")
    return int(value)


class MatrixMakers:
    """The class methods of `sg.Matrix`."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Matrix"

    @classmethod
    def zero(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """Return n rows and m columns of 0 in the type `dt`; a vector without m."""
        return cls._made(np.full(_shape(n, m), 0).tolist(), dt)

    @classmethod
    def one(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """Return n rows and m columns of 1 in the type `dt`; a vector without m."""
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
        """Return the matrix of these rows: vectors or sequences of one length. Raise MatrixError otherwise."""
        made = cls._made(rows, None)
        if made.ndim != 2:
            raise MatrixError(f"a matrix of shape {made.shape}", "give vectors of one length")
        return made

    @classmethod
    def cols(cls, cols: Sequence[Any]) -> Matrix:
        """Return the matrix of these columns: vectors or sequences of one length. Raise MatrixError otherwise."""
        return cls.rows(cols).transpose()

    @staticmethod
    def _made(entries: Any, dtype: Any) -> Matrix:
        """Return a value of these entries, in a type if one is given."""
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
        """Return a new ndarray or, with backend=sg.Backend.FIELD, field of n x m matrices; options as `sg.tensor`."""
        made: MatrixField | MatrixNdarray = factory("ndarrays", "matrix_tensor")(_shape(n, m), dtype, shape, **options)
        return made


class VectorMakers(MatrixMakers):
    """The class methods of `sg.Vector`, which take one extent."""

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
        """Return a new ndarray or, with backend=sg.Backend.FIELD, field of vectors; options as `sg.tensor`."""
        return cast("MatrixField", factory("ndarrays", "matrix_tensor")(_shape(n, None), dtype, shape, **options))


def _shape(n: int, m: int | None) -> tuple[int, ...]:
    return (extent(n, "n"),) if m is None else (extent(n, "n"), extent(m, "m"))
