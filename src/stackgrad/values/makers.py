"""Makers that hang on `sg.Matrix` and `sg.Vector`: constants, and fields, ndarrays and tensors of such elements."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..usage import MatrixError

if TYPE_CHECKING:
    from ..compiler.ir.types import Scalar
    from ..fields import MatrixField, MatrixNdarray
    from .matrix import Matrix
    from .vector import Vector

    Shape = int | Sequence[int]
    DType = Scalar | type


def _made(data: Any, dtype: Any) -> Any:
    from .matrix import typed, wrap

    found, own = typed(data, None, dtype)
    return wrap(found, own is not None)


def _extent(value: Any, name: str) -> int:
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
        return _filled(0, dt, n, m)

    @classmethod
    def one(cls, dt: DType | None, n: int, m: int | None = None) -> Matrix:
        """n rows and m columns of 1; a vector without m."""
        return _filled(1, dt, n, m)

    @staticmethod
    def identity(dt: DType | None, n: int) -> Matrix:
        """The identity matrix of n rows."""
        made: Matrix = _made(np.eye(_extent(n, "n"), dtype=np.int64), dt)
        return made

    @staticmethod
    def unit(n: int, i: int, dt: DType | None = None) -> Vector:
        """The i-th unit vector of n entries, integers unless told otherwise."""
        data = np.zeros(_extent(n, "n"), np.int64)
        if not 0 <= i < n:
            raise MatrixError(f"there is no unit vector {i} of {n} entries", "count from 0")
        data[i] = 1
        made: Vector = _made(data, dt)
        return made

    @staticmethod
    def diag(dim: int, val: float) -> Matrix:
        """A square matrix with one number on its diagonal."""
        made: Matrix = _made(np.diag([val] * _extent(dim, "dim")), None)
        return made

    @staticmethod
    def rows(rows: Sequence[Any]) -> Matrix:
        """The matrix of these rows: vectors or sequences of one length."""
        from .matrix import wrap

        data, typed = _stacked(rows)
        return wrap(data, typed)

    @staticmethod
    def cols(cols: Sequence[Any]) -> Matrix:
        """The matrix of these columns: vectors or sequences of one length."""
        from .matrix import wrap

        data, typed = _stacked(cols)
        return wrap(data.T.copy(), typed)

    @classmethod
    def field(cls, n: int, m: int, dtype: DType, shape: Shape | None = None, **options: Any) -> MatrixField:
        """A field of n x m matrices; options as `sg.field`, and layout=sg.Layout.AOS or SOA."""
        from ..fields import matrix_field

        return matrix_field((_extent(n, "n"), _extent(m, "m")), dtype, shape, **options)

    @classmethod
    def ndarray(cls, n: int, m: int, dtype: DType, shape: Shape, needs_grad: bool = False) -> MatrixNdarray:
        """An ndarray of n x m matrices."""
        from ..ndarray import matrix_ndarray

        return matrix_ndarray((_extent(n, "n"), _extent(m, "m")), dtype, shape, needs_grad)

    @classmethod
    def tensor(cls, n: int, m: int, dtype: DType, shape: Shape, **options: Any) -> MatrixField:
        """An ndarray or, with backend=sg.Backend.FIELD, a field of n x m matrices; options as `sg.tensor`."""
        from ..ndarray import matrix_tensor

        return matrix_tensor((_extent(n, "n"), _extent(m, "m")), dtype, shape, **options)


class VectorMakers(MatrixMakers):
    """Class methods of `sg.Vector`, which take the extent alone."""

    __slots__ = ()
    stackgrad_constructor: ClassVar[str] = "Vector"

    @classmethod
    def field(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape | None = None, **options: Any
    ) -> MatrixField:
        """A field of vectors of n entries; options as `sg.field`, and layout=sg.Layout.AOS or SOA."""
        from ..fields import matrix_field

        return matrix_field((_extent(n, "n"),), dtype, shape, **options)

    @classmethod
    def ndarray(  # type: ignore[override]
        cls, n: int, dtype: DType, shape: Shape, needs_grad: bool = False
    ) -> MatrixNdarray:
        """An ndarray of vectors of n entries."""
        from ..ndarray import matrix_ndarray

        return matrix_ndarray((_extent(n, "n"),), dtype, shape, needs_grad)

    @classmethod
    def tensor(cls, n: int, dtype: DType, shape: Shape, **options: Any) -> MatrixField:  # type: ignore[override]
        """An ndarray or, with backend=sg.Backend.FIELD, a field of vectors; options as `sg.tensor`."""
        from ..ndarray import matrix_tensor

        return matrix_tensor((_extent(n, "n"),), dtype, shape, **options)


def _filled(value: int, dt: Any, n: int, m: int | None) -> Matrix:
    shape = (_extent(n, "n"),) if m is None else (_extent(n, "n"), _extent(m, "m"))
    made: Matrix = _made(np.full(shape, value), dt)
    return made


def _stacked(lines: Sequence[Any]) -> tuple[np.ndarray, bool]:
    from .matrix import entries_of

    data, own = entries_of(lines)
    if data.ndim != 2:
        raise MatrixError(f"a matrix of shape {data.shape}", "give vectors of one length")
    typed = [getattr(line, "dtype", None) is not None for line in lines]
    return data, own is not None or all(typed)
