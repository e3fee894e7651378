"""Makers that hang on `sg.Matrix` and `sg.Vector`: constants, and fields, ndarrays and tensors of such elements."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

import numpy as np

from ..usage import MatrixError

if TYPE_CHECKING:
    from ..compiler.ir.types import Scalar
    from ..fields import MatrixField, MatrixNdarray
    from ..fields.kinds import FieldOptions, TensorOptions
    from .matrix import Matrix

    Shape = int | Sequence[int]
    DType = Scalar | type


def factory(module: str, name: str) -> Any:
    """A factory of fields or ndarrays, found by name: their elements are the values made here, so they load us."""
    return getattr(importlib.import_module(f"..{module}", __package__), name)


def extent(value: Any, name: str) -> int:
    """An extent of a vector or matrix, checked. Raises MatrixError."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise MatrixError(f"{name} cannot be {value!r}", "extents are integers of 1 or more")
    return int(value)


class MatrixMakers:
    """Class methods of `sg.Matrix`."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Matrix"

    @classmethod
    def zero(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """n rows and m columns of 0; a vector without m."""
        return cls._made(np.full(_shape(n, m), 0).tolist(), dt)

    @classmethod
    def one(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """n rows and m columns of 1; a vector without m."""
        return cls._made(np.full(_shape(n, m), 1).tolist(), dt)

    @classmethod
    def identity(cls, dt: DType | None, n: int) -> Matrix:
        """The identity matrix of n rows."""
        return cls._made(np.eye(extent(n, "n"), dtype=np.int64).tolist(), dt)

    @classmethod
    def unit(cls, n: int, i: int, dt: DType | None = None) -> Matrix:
        """The i-th unit vector of n entries, integers unless told otherwise."""
        if not 0 <= i < extent(n, "n"):
            raise MatrixError(f"there is no unit vector {i} of {n} entries", "count from 0")
        return cls._made([int(i == place) for place in range(n)], dt)

    @classmethod
    def diag(cls, dim: int, val: float) -> Matrix:
        """A square matrix with one number on its diagonal."""
        return cls._made(np.diag([val] * extent(dim, "dim")).tolist(), None)

    @classmethod
    def rows(cls, rows: Sequence[Any]) -> Matrix:
        """The matrix of these rows: vectors or sequences of one length."""
        made = cls._made(rows, None)
        if made.ndim != 2:
            raise MatrixError(f"a matrix of shape {made.shape}", "give vectors of one length")
        return made

    @classmethod
    def cols(cls, cols: Sequence[Any]) -> Matrix:
        """The matrix of these columns: vectors or sequences of one length."""
        return cls.rows(cols).transpose()

    @staticmethod
    def _made(entries: Any, dtype: Any) -> Matrix:
        """A value of these entries, in a type if one is given."""
        raise NotImplementedError

    @classmethod
    def field(
        cls, n: int, m: int, dtype: DType, shape: Shape | None = None, **options: Unpack[FieldOptions]
    ) -> MatrixField:
        """A field of n x m matrices; options as `sg.field`, and layout=sg.Layout.AOS or SOA."""
        made: MatrixField = factory("fields", "matrix_field")(_shape(n, m), dtype, shape, **options)
        return made

    @classmethod
    def ndarray(cls, n: int, m: int, dtype: DType, shape: Shape, needs_grad: bool = False) -> MatrixNdarray:
        """An ndarray of n x m matrices."""
        made: MatrixNdarray = factory("ndarrays", "matrix_ndarray")(_shape(n, m), dtype, shape, needs_grad)
        return made

    @classmethod
    def tensor(
        cls, n: int, m: int, dtype: DType, shape: Shape, **options: Unpack[TensorOptions]
    ) -> MatrixField | MatrixNdarray:
        """An ndarray or, with backend=sg.Backend.FIELD, a field of n x m matrices; options as `sg.tensor`."""
        made: MatrixField | MatrixNdarray = factory("ndarrays", "matrix_tensor")(_shape(n, m), dtype, shape, **options)
        return made


class VectorMakers(MatrixMakers):
    """Class methods of `sg.Vector`, which take the extent alone."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Vector"

    @classmethod
    def field(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape | None = None, **options: Unpack[FieldOptions]
    ) -> MatrixField:
        """A field of vectors of n entries; options as `sg.field`, and layout=sg.Layout.AOS or SOA."""
        made: MatrixField = factory("fields", "matrix_field")(_shape(n, None), dtype, shape, **options)
        return made

    @classmethod
    def ndarray(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape, needs_grad: bool = False
    ) -> MatrixNdarray:
        """An ndarray of vectors of n entries."""
        made: MatrixNdarray = factory("ndarrays", "matrix_ndarray")(_shape(n, None), dtype, shape, needs_grad)
        return made

    @classmethod
    def tensor(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape, **options: Unpack[TensorOptions]
    ) -> MatrixField | MatrixNdarray:
        """An ndarray or, with backend=sg.Backend.FIELD, a field of vectors; options as `sg.tensor`."""
        return cast("MatrixField", factory("ndarrays", "matrix_tensor")(_shape(n, None), dtype, shape, **options))


def _shape(n: int, m: int | None) -> tuple[int, ...]:
    return (extent(n, "n"),) if m is None else (extent(n, "n"), extent(m, "m"))
