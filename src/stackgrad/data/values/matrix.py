"""Define vectors and matrices of numbers for use outside of kernels, such as elements of matrix fields.

Invariant: `data` is a NumPy array of one axis (a vector) or two. `dtype` is the element type if the program gave a
type; it is None for plain numbers, which take a type where they are used, as Python numbers do.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...compiler.errors import OutOfBounds
from ...compiler.ir.types import Scalar, from_dtype
from ...runtime.session import RUNTIME
from ...runtime.usage_errors import MatrixError
from ..dtypes import scalar_type
from . import operators
from .algebra import Algebra
from .makers import MatrixMakers, VectorMakers
from .swizzles import swizzle

Number = int | float | bool


class Matrix(Algebra, MatrixMakers):
    """Represent a vector or matrix of numbers; `*` multiplies element by element, and `@` is the matrix product.

        a = sg.Matrix([[1, 2], [3, 4]], sg.f32)
        a @ sg.Vector([1, 0])

    Args:
        rows: Rows of numbers or vectors.
        dt: The element type; without one the entries count as plain numbers, those of NumPy arrays too.
        dtype: Another name of `dt`.

    Raises:
        MatrixError: Rows have unequal lengths, or hold no numbers.
    """

    __slots__ = ("data", "dtype")
    is_stackgrad_matrix: ClassVar[bool] = True
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    data: np.ndarray
    dtype: Scalar | None

    # What users give is Any: numbers of Python or NumPy, vectors, matrices, arrays, and sequences of all these. What an
    # index selects is a number, a vector or a matrix, and which one depends on the shape.
    def __init__(self, rows: Any, dt: Scalar | type | None = None, *, dtype: Scalar | type | None = None) -> None:
        data, own = entries_of(rows)
        if data.ndim not in (1, 2):
            raise MatrixError(f"a matrix of shape {data.shape}", "give rows of numbers, all of one length")
        self._set(*typed(data, own, dt if dt is not None else dtype))

    @staticmethod
    def _wrap(data: np.ndarray, is_typed: bool) -> Matrix:
        """Return a vector or matrix with these entries, which has an explicit scalar type if `is_typed`."""
        return wrap(data, is_typed)

    @staticmethod
    def _made(entries: Any, dtype: Any) -> Matrix:
        """Return a vector or matrix with these entries, converted to `dtype` if it is not None."""
        data, own = typed(*entries_of(entries), dtype)
        return wrap(data, own is not None)

    def _set(self, data: np.ndarray, dtype: Scalar | None) -> None:
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "dtype", dtype)

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def _form(self) -> np.ndarray:
        """Return the array of entries without notifying tapes of a read, for code that needs only its shape or type."""
        return self.data

    @property
    def shape(self) -> tuple[int, ...]:
        """Return (n,) for a vector, (n, m) for a matrix."""
        return self._form.shape

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self._form)

    @property
    def m(self) -> int:
        """Return the number of columns, which is 1 for a vector."""
        return self._form.shape[1] if self._form.ndim == 2 else 1

    @property
    def ndim(self) -> int:
        """Return 1 for a vector, 2 for a matrix."""
        return self._form.ndim

    @property
    def entries(self) -> list[Any]:
        """Return the entries as Python numbers: a list, or a list of rows."""
        return self.data.tolist()  # type: ignore[no-any-return]

    def to_list(self) -> list[Any]:
        """Return the entries as Python numbers: a list, or a list of rows."""
        return self.entries

    tolist = to_list

    def to_numpy(self) -> np.ndarray:
        """Return a copy of the entries as a NumPy array."""
        return self.data.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.data.astype(dtype) if dtype is not None else self.data.copy()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply a NumPy function of one or two arguments, and return a matrix."""
        if method != "__call__" or options or ufunc.nout != 1 or len(inputs) > 2:
            return NotImplemented
        if len(inputs) == 2:
            return self._binary(ufunc, inputs[0], inputs[1], f"numpy.{ufunc.__name__}")
        with np.errstate(all="ignore"):
            return wrap(ufunc(self.data), self.dtype is not None)

    def __len__(self) -> int:
        return len(self._form)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self._form)))

    def __bool__(self) -> bool:
        if RUNTIME.matrix_truth is not None:
            return RUNTIME.matrix_truth()
        if self.data.size != 1:
            raise MatrixError("the truth of a vector or matrix is ambiguous", "use .all() or .any()")
        return bool(self.data.item())

    def __repr__(self) -> str:
        name = "Vector" if self.data.ndim == 1 else "Matrix"
        return f"{name}({self.entries}{f', {self.dtype}' if self.dtype else ''})"

    def __str__(self) -> str:
        return str(self.entries)

    def __reduce__(self) -> Any:
        return wrap, (self.data.copy(), self.dtype is not None)

    # -- entries --------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        """Return an entry as a Python number, or a row or slice as a vector or matrix. Raise OutOfBounds."""
        found = self.data[self._index(index)]
        return wrap(found.copy(), self.dtype is not None) if found.ndim else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Overwrite an entry or a row. Raise OutOfBounds or MatrixError if the index or the value does not fit."""
        place = self._index(index)
        self._write(place, operators.fit_entries(value, self._form[place].shape))

    def __getattr__(self, name: str) -> Any:
        places = None if name in ("data", "dtype") else swizzle(name, self._form.shape)
        if places is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self[places[0]] if len(places) == 1 else wrap(self.data[list(places)], self.dtype is not None)

    def __setattr__(self, name: str, value: Any) -> None:
        places = swizzle(name, self._form.shape)
        if places is None or len(set(places)) != len(places):
            raise AttributeError(f"the attribute {name!r} of {type(self).__name__} cannot be set")
        if len(places) == 1:
            self[places[0]] = value
        else:
            self._write((list(places),), operators.fit_entries(value, (len(places),)))

    def _write(self, place: Any, value: np.ndarray) -> None:
        """Overwrite the entries at an index; integer entries without a type become reals if reals are stored."""
        if self.dtype is None and value.dtype.kind == "f" and self.data.dtype.kind != "f":
            self._set(self.data.astype(np.float64), None)
        self.data[place] = value

    def _index(self, index: Any) -> tuple[int | slice, ...]:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) > self.ndim:
            raise MatrixError(f"{len(given)} indices of a value of shape {self.shape}", f"give {self.ndim}")
        return tuple(_place(i, extent, self.shape) for i, extent in zip(given, self.shape))


def _place(index: Any, extent: int, shape: tuple[int, ...]) -> int | slice:
    if isinstance(index, slice):
        return index
    try:
        found = operator.index(index)
    except TypeError:
        raise MatrixError(f"the index {index!r} is no integer", "indices are integers or slices") from None
    if not 0 <= found < extent:
        raise OutOfBounds(f"index {found} is outside a value of shape {shape}")
    return found


class Vector(VectorMakers, Matrix):
    """Represent a vector of numbers; see `Matrix`.

        v = sg.Vector([1.0, 2.0, 3.0], sg.f32)

    Args:
        entries: Numbers, or a matrix of one column.
        dt: The element type; without one the entries count as plain numbers.
        dtype: Another name of `dt`.

    Raises:
        MatrixError: The entries are no numbers along one axis.
    """

    __slots__ = ()

    # Entries are Any, as those of `Matrix`.
    def __init__(self, entries: Any, dt: Scalar | type | None = None, *, dtype: Scalar | type | None = None) -> None:
        data, own = entries_of(entries)
        if data.ndim == 2 and data.shape[1] == 1:
            data = data[:, 0]
        if data.ndim != 1:
            raise MatrixError(f"a vector of shape {data.shape}", "give a list of numbers")
        self._set(*typed(data, own, dt if dt is not None else dtype))


def wrap(data: Any, is_typed: bool) -> Matrix:
    """Return a Vector with these entries if they have one axis, else a Matrix."""
    made: Matrix = object.__new__(Vector if data.ndim == 1 else Matrix)
    made._set(data, from_dtype(data.dtype) if is_typed else None)
    return made


def entries_of(rows: Any) -> tuple[np.ndarray, Scalar | None]:
    """Return the entries of nested sequences as an array, and their common scalar type or None.

    Raises:
        MatrixError: Rows have unequal lengths, or hold no numbers.
    """
    if isinstance(rows, Matrix):
        return rows.data.copy(), rows.dtype
    lines = _sequence(rows)
    try:
        found = np.array([line.data if isinstance(line, Matrix) else line for line in lines])
    except ValueError:
        raise MatrixError("rows of unequal length", "give rows of numbers, all of one length") from None
    if not found.size:
        raise MatrixError("a matrix without entries", "give at least one number")
    if found.dtype.kind not in "fiub":
        raise MatrixError(f"a matrix holds numbers, not {found.dtype}", "give rows of numbers")
    if all(isinstance(line, Matrix) and line.dtype is not None for line in lines):
        return found, from_dtype(found.dtype)
    return operators.untyped_numbers(found), None


def _sequence(rows: Any) -> Sequence[Any]:
    if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
        raise MatrixError(f"{rows!r} holds no rows", "give a list of numbers, or a list of rows")
    return list(rows)


def typed(data: np.ndarray, own: Scalar | None, dtype: object) -> tuple[np.ndarray, Scalar | None]:
    """Return (entries, type): the entries converted to `dtype`, or unchanged with the type `own` if `dtype` is None."""
    if dtype is None:
        return data, own
    wanted = scalar_type(dtype)
    with np.errstate(all="ignore"):
        return data.astype(wanted.dtype), wanted
