"""Define fields and ndarrays of vectors or matrices, each stored in one scalar array.

Invariant: `storage` has the axes of the field and those of the element, the element's last (AOS) or first (SOA). Only
`storage` has memory, versions and gradients; the `grad` of the field is a view of `storage.grad`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ...compiler.errors import short_repr
from ...compiler.frontend.aggregates import MatrixType, adjoint_element
from ...compiler.ir.types import Scalar
from ...runtime.usage_errors import FieldError
from ..values import Matrix
from ..values.operators import data_of, is_number
from ..views import slice_view
from .array import Array
from .conversions import as_numpy, convert
from .copies import copy_if_watched, matched_axes
from .elements import element_of
from .entries import FieldEntry
from .exchange import Exchange
from .kinds import Field, Layout, Ndarray
from .offsets import place_of
from .scalar import describe


class MatrixArray(Exchange):
    """Define the common base class of fields and ndarrays of vectors or matrices.

    Attributes:
        element: The type of the elements.
        storage: The scalar array.
        element_first: True if the axes of the element come first in memory.
    """

    __slots__ = ("element", "storage", "element_first", "_grad", "_dual", "__dict__", "__weakref__")
    is_stackgrad_matrix_field = True
    maker = "ndarray"

    def __init__(self, element: MatrixType, storage: Array, element_first: bool = False) -> None:
        self.element = element
        self.storage = storage
        self.element_first = element_first
        self._grad: Self | None = None
        self._dual: Self | None = None

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents of the field, without those of the elements."""
        shape, count = self.storage.shape, len(self.element.shape)
        return shape[count:] if self.element_first else shape[:-count]

    @property
    def offset(self) -> tuple[int, ...]:
        """Return the first index along each axis, or () if indices begin at 0."""
        return self.storage.offset

    @property
    def ndim(self) -> int:
        """Return the number of axes of the field."""
        return len(self.shape)

    @property
    def dtype(self) -> Scalar:
        """Return the scalar type of the elements' entries."""
        return self.element.dtype

    @property
    def n(self) -> int:
        """Return the number of rows of an element."""
        return self.element.shape[0]

    @property
    def m(self) -> int:
        """Return the number of columns of an element, which is 1 for a vector."""
        return self.element.shape[1] if len(self.element.shape) == 2 else 1

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Return the shape of an element: (n,) for vectors, (n, m) for matrices."""
        return self.element.shape

    @property
    def layout(self) -> Layout:
        """Return AOS if each element's entries are adjacent in memory, or SOA if each entry has its own block."""
        return Layout.SOA if self.element_first else Layout.AOS

    @property
    def needs_grad(self) -> bool:
        """Return True if the array has an adjoint with memory."""
        return self.storage.needs_grad

    @property
    def needs_dual(self) -> bool:
        """Return True if the array has a tangent with memory."""
        return self.storage.needs_dual

    @property
    def grad(self) -> Self:
        """Return the adjoint as an array of the same shape and layout. Raise GradientError without needs_grad."""
        if self._grad is None or self._grad.storage is not self.storage.grad:
            self._grad = self._beside(self.storage.grad, adjoint_element(self.element))
        return self._grad  # type: ignore[return-value]

    @property
    def dual(self) -> Self:
        """Return the tangent as an array of the same shape and layout. Raise GradientError without needs_dual."""
        if self._dual is None or self._dual.storage is not self.storage.dual:
            self._dual = self._beside(self.storage.dual, self.element)
        return self._dual  # type: ignore[return-value]

    def _beside(self, storage: Array | None, element: Any) -> Self | None:
        return None if storage is None else type(self)(element, storage, self.element_first)

    def companion(self, kind: str) -> Self:
        """Return the adjoint ("grad") or tangent ("dual") array; if there is none, make one without memory."""
        self.storage.companion(kind)
        made: Self = getattr(self, kind)
        return made

    @property
    def name(self) -> str | None:
        """Return the name that the user gave to the array, or None if there is none."""
        return self.storage.name

    @property
    def label(self) -> str:
        """Return the name of the field for messages."""
        if self.name or not self.is_placed:
            return self.storage.label
        return f"the {self.maker} of {self.element} and shape {self.shape}"

    def __repr__(self) -> str:
        kind = "Vector" if len(self.element.shape) == 1 else "Matrix"
        parts = [*map(str, self.element.shape), str(self.dtype)]
        return describe(f"sg.{kind}.{self.maker}", parts, self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.label} has no axes, so no length")
        return self.shape[0]

    # -- memory ---------------------------------------------------------------------------------------------

    @property
    def is_placed(self) -> bool:
        """Return True if the field has memory."""
        return self.storage.is_placed

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the scalar arrays that store the contents."""
        return (self.storage,)

    def allocate(self, shape: tuple[int, ...]) -> None:
        """Allocate memory for a shape. Raise FieldError if the field has memory already."""
        own = self.element.shape
        self.storage.allocate((*own, *shape) if self.element_first else (*shape, *own))

    def check_alive(self) -> None:
        """Raise StaleFieldError or FieldError unless the field can be used."""
        self.storage.check_alive()

    def export(self) -> None:
        """Record that from now on other code can write the memory."""
        self.storage.export()

    def begin_read(self, place: Any = ...) -> None:
        """Notify tapes and forward mode that the host is about to read; see `Array.begin_read`."""
        self.storage.begin_read(place)

    def values(self) -> np.ndarray:
        """Return the contents, to be read only, with the elements' axes last; see `Array.values`."""
        return self._in_order(self.storage.values())

    def shared(self) -> np.ndarray:
        """Return the array's own memory, not a copy, with the elements' axes last."""
        return self._in_order(self.storage.shared())

    def in_place(self) -> np.ndarray:
        """Return the array's own memory, with the elements' axes last, without waiting for launches."""
        return self._in_order(self.storage.in_place())

    def mark_exported(self) -> None:
        """Record that from now on other code can write the memory on the device, in order with launches."""
        self.storage.mark_exported()

    def _in_order(self, memory: np.ndarray) -> np.ndarray:
        if not self.element_first:
            return memory
        count = len(self.element.shape)
        return np.moveaxis(memory, range(count), range(-count, 0))

    # -- elements -------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Matrix:
        """Return an element; a write to its entries writes the field. Raise OutOfBounds for a bad index."""
        self.check_alive()
        place = self._place(index)
        return element_of(self.storage, place)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Overwrite an element with a vector or matrix. Raise OutOfBounds or FieldError if index or value are unfit."""
        self.check_alive()
        place = self._place(index)
        self.storage.write(place, self._element(value))

    def _place(self, index: Any) -> tuple[Any, ...]:
        place = place_of(self, index)
        return (*(slice(None),) * len(self.element.shape), *place) if self.element_first else place

    def _element(self, value: Any) -> np.ndarray:
        found = data_of(value)
        if found is None or found[0].shape != self.element.shape:
            raise FieldError(f"an element of {self.label} cannot be {short_repr(value)}", f"give {self.element}")
        return convert(found[0], self.dtype, self.label)

    # -- whole content --------------------------------------------------------------------------------------

    def from_numpy(self, array: Any) -> None:
        """Overwrite the contents with an array whose shape is the field's, followed by that of its elements.

        The dtype is cast, and errors are raised, as by `Array.from_numpy`.
        """
        given = as_numpy(array)
        want = (*self.shape, *self.element.shape)
        if given.shape not in (want, (*want, 1), want[: -1 if self.m == 1 else None]):
            raise FieldError(f"{self.label} takes an array of shape {want}, not {given.shape}", "reshape the array")
        given = convert(given.reshape(want), self.dtype, self.label)
        axes = len(self.element.shape)
        self.storage.write(..., np.moveaxis(given, range(-axes, 0), range(axes)) if self.element_first else given)

    def fill(self, value: Any) -> None:
        """Overwrite every element with one vector or matrix, or every entry with one number."""
        if is_number(value):
            self.storage.fill(value)
            return
        element = self._element(value)
        spread = (*element.shape, *(1,) * self.ndim)
        self.storage.write(..., element.reshape(spread) if self.element_first else element)

    def copy_from(self, other: MatrixArray) -> None:
        """Overwrite the contents with those of a field or ndarray with the same shape and elements.

        Derivatives flow through the copy, as through a launch. Fields that do not match raise FieldError.
        """
        if not isinstance(other, MatrixArray):
            raise FieldError(f"copy_from takes a field, not {type(other).__name__}", "use from_numpy() for arrays")
        self.check_alive()
        other.check_alive()
        axes = matched_axes(self, other)
        if axes is None or not copy_if_watched(self.storage, other.storage, axes):
            self.from_numpy(other.values())

    def __reduce__(self) -> Any:
        make, content = self.storage.__reduce__()
        return remade, (type(self), self.element, make, content, self.element_first)


class MatrixField(MatrixArray, Field):
    """Represent a field of vectors or matrices, as made by `sg.Vector.field` and `sg.Matrix.field`."""

    __slots__ = ()
    maker = "field"

    def to_numpy(self, dtype: Any = None, *, keep_dims: bool = False, copy: bool | None = True) -> np.ndarray:
        """Return the contents, with the elements' axes last; one-column matrices lose their second axis.

        Args:
            dtype: The dtype of the array; None for that of the field.
            keep_dims: True for (n, 1) in place of (n,).
            copy: False or None to share the memory; see `Exchange.to_numpy`.
        """
        found = super().to_numpy(dtype, copy=copy)
        if self.m != 1:
            return found
        return found.reshape(*self.shape, self.n, *(1,) * keep_dims)

    def get_scalar_field(self, *indices: int) -> FieldEntry:
        """Return one entry of a field without memory, which `place` takes; the field is placed with its last entry.

        Args:
            *indices: The row of the entry, and the column of an entry of a matrix.

        Raises:
            FieldError: The field has memory, where its entries are not separate fields, or it has no such entry.
        """
        if self.storage.is_placed:
            raise FieldError(f"{self.label} is one array, not one field for each entry", "use x[i][k], or to_numpy()")
        row, column = (*indices, 0, 0)[:2]
        if len(indices) not in (1, 2) or not (0 <= row < self.n and 0 <= column < self.m):
            extent = f"{self.n} x {self.m} entries" if self.m > 1 else f"{self.n} entries"
            raise FieldError(f"{self.label} has {extent}, and none at {indices}", "give indices that exist")
        return FieldEntry(self, (row, column))


class MatrixNdarray(MatrixArray, Ndarray):
    """Represent an ndarray of vectors or matrices; its `grad` is None if it was made without needs_grad."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """Return an element, or a view for a slice `x[a:b]`. Raise OutOfBounds or ViewError for a bad index."""
        return slice_view(self, index) if isinstance(index, slice) else MatrixArray.__getitem__(self, index)


def remade(kind: type[MatrixArray], element: MatrixType, make: Any, content: Any, element_first: bool) -> MatrixArray:
    """Return a new field or ndarray with the given contents, without gradients; unpickling calls this function."""
    return kind(element, make(*content), element_first)
