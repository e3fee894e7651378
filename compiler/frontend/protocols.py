"""This module defines protocols that recognize fields and host values by their attributes, not by their class.

Invariant: the frontend imports no class of the runtime, so that any storage with these attributes can be traced (host
memory, device buffers, test doubles).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from ..ir.extents import is_wide
from ..ir.types import Scalar, i32, i64

if TYPE_CHECKING:
    from .aggregates import MatrixType, StructType


@runtime_checkable
class FieldLike(Protocol):
    """A field-like object is an array with a fixed rank and element type that kernels read and write by index.

    A 0-d field is indexed `x[None]` or `x[()]`. `grad` is the adjoint array of the same shape, or None.
    """

    is_stackgrad_field: bool
    dtype: Scalar
    shape: tuple[int, ...]
    needs_grad: bool
    grad: FieldLike | None


@runtime_checkable
class MatrixFieldLike(Protocol):
    """This protocol describes a field of vectors or matrices, which is stored in one scalar array.

    The rank of that array is len(shape) + len(element.shape), where `shape` is the shape of the field. If
    `element_first` is False, the array is stored as [i, j, a, b], else as [a, b, i, j]. The storage of the gradient is
    the gradient of the storage.
    """

    is_stackgrad_matrix_field: bool
    shape: tuple[int, ...]
    element: MatrixType
    needs_grad: bool
    grad: MatrixFieldLike | None
    storage: FieldLike
    element_first: bool


@runtime_checkable
class StructFieldLike(Protocol):
    """This protocol describes a field of structs: one field for each member, all of the same shape."""

    is_stackgrad_struct_field: bool
    shape: tuple[int, ...]
    members: Mapping[str, AnyField]
    type: StructType
    grad: StructFieldLike | None


AnyField: TypeAlias = "FieldLike | MatrixFieldLike | StructFieldLike"


class HostMatrix(Protocol):
    """This protocol describes `sg.Vector` and `sg.Matrix` objects of plain Python; `is_stackgrad_matrix` is True.

    `dtype` is the type of the entries, or None if they count as numbers of the program text.
    """

    is_stackgrad_matrix: bool
    dtype: Scalar | None

    def to_numpy(self) -> Any:
        """Return the entries as an array with the shape of the vector or matrix."""


class HostStruct(Protocol):
    """This protocol describes a struct object of plain Python; members are numbers, vectors, matrices or structs."""

    is_stackgrad_struct: bool
    type: StructType
    members: Mapping[str, Any]


class LaunchShape(tuple[int, ...]):
    """A `LaunchShape` is the shape of an array argument: its rank is known, its extents are read at launch."""

    def __new__(cls, ndim: int) -> LaunchShape:
        """Return a shape of `ndim` axes for an array argument; each extent is -1, because only a launch knows it."""
        return super().__new__(cls, (-1,) * ndim)

    def __getitem__(self, axis: Any) -> Any:
        raise TypeError("the extents of an array argument are known at launch only")

    def __iter__(self) -> Any:
        return self[0]


@dataclass(frozen=True, eq=False)
class ArgumentArray:
    """An `ArgumentArray` takes the place of an array argument while a kernel is traced; it has no memory.

    Attributes:
        dtype: type of an element.
        shape: extents that are the same for all launches of the trace, or a `LaunchShape`.
        needs_grad: True if the array has a gradient.
        slot: number of the array in the launch.
        grad: stand-in of the adjoint array, or None.
        is_grad: True if this is the stand-in of the adjoint of array `slot`.
        offset: first index of each axis, () if all are 0.
        wide: True if the argument is a wide array, whose extents are read in 64 bits.
    """

    dtype: Scalar
    shape: tuple[int, ...]
    needs_grad: bool
    slot: int
    grad: ArgumentArray | None = None
    is_grad: bool = False
    offset: tuple[int, ...] = ()
    is_stackgrad_field: bool = True
    wide: bool = False


@dataclass(frozen=True, eq=False)
class ArgumentMatrixArray:
    """An `ArgumentMatrixArray` takes the place of an array argument whose elements are vectors or matrices."""

    element: MatrixType
    storage: ArgumentArray
    grad: ArgumentMatrixArray | None = None
    element_first: bool = False
    is_stackgrad_matrix_field: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents of the array, those within an element excluded."""
        shape, count = self.storage.shape, len(self.element.shape)
        if isinstance(shape, LaunchShape):
            return LaunchShape(len(shape) - count)
        return shape[count:] if self.element_first else shape[:-count]

    @property
    def needs_grad(self) -> bool:
        """Return True if the array has a gradient."""
        return self.storage.needs_grad

    @property
    def offset(self) -> tuple[int, ...]:
        """Return the first index of each axis."""
        return self.storage.offset


@dataclass(frozen=True, eq=False)
class ArgumentStructArray:
    """An `ArgumentStructArray` takes the place of an argument that is a field of structs while a kernel is traced."""

    type: StructType
    shape: tuple[int, ...]
    members: Mapping[str, AnyField]
    grad: ArgumentStructArray | None = None
    offset: tuple[int, ...] = ()
    is_stackgrad_struct_field: bool = True


@dataclass(frozen=True, eq=False)
class ViewOperand:
    """A `ViewOperand` is a view: the elements `first` to `first + extent` of an array of one axis.

    Code that runs at compile time, such as in `sg.static`, sees the properties.

    Attributes:
        base: the array.
        first: number of the first element: a Python integer, an operand, or a number that each launch supplies.
        extent: number of elements, as for `first`.
        hint: name of the array in the program, if the view has a different name.
    """

    base: AnyField
    first: Any
    extent: Any
    hint: str = ""

    @property
    def size(self) -> int:
        """Return the number of elements, or raise AttributeError if only the launch knows it."""
        return _known_now(self.extent)

    @property
    def offset(self) -> int:
        """Return the number of the first element, or raise AttributeError if only the launch knows it."""
        return _known_now(self.first)

    @property
    def shape(self) -> tuple[int]:
        """Return the number of elements as a shape."""
        return (self.size,)

    @property
    def dtype(self) -> Scalar:
        """Return the type of the numbers in the view."""
        return self.base.element.dtype if is_matrix_field(self.base) else self.base.dtype  # type: ignore[union-attr]

    def __getitem__(self, key: object) -> None:
        raise TypeError("elements and parts of a view are taken outside of `static`: give a part a name, `w = v[a:b]`")


def _known_now(number: Any) -> int:
    if isinstance(number, int):
        return number
    raise AttributeError("where a view begins and ends is known at launch only")


class HostView(Protocol):
    """This protocol describes a view that was made in plain Python; `is_stackgrad_view` is True."""

    is_stackgrad_view: bool
    arr: Any
    offset: int
    size: int


def _marked(value: Any, mark: str) -> bool:
    return not isinstance(value, type) and getattr(value, mark, False) is True


def is_field(value: Any) -> TypeGuard[FieldLike]:
    """Return True if a captured object is a field of scalars."""
    return _marked(value, "is_stackgrad_field")


def is_matrix_field(value: Any) -> TypeGuard[MatrixFieldLike]:
    """Return True if a captured object is a field of vectors or matrices."""
    return _marked(value, "is_stackgrad_matrix_field")


def is_struct_field(value: Any) -> TypeGuard[StructFieldLike]:
    """Return True if a captured object is a field of structs."""
    return _marked(value, "is_stackgrad_struct_field")


def is_any_field(value: Any) -> TypeGuard[AnyField]:
    """Return True if a captured object is a field of scalars, vectors, matrices or structs."""
    return is_field(value) or is_matrix_field(value) or is_struct_field(value)


def is_host_matrix(value: Any) -> TypeGuard[HostMatrix]:
    """Return True if a captured object is a vector or matrix of the host."""
    return _marked(value, "is_stackgrad_matrix")


def is_host_struct(value: Any) -> TypeGuard[HostStruct]:
    """Return True if a captured object is a struct of the host."""
    return _marked(value, "is_stackgrad_struct")


def is_host_view(value: Any) -> TypeGuard[HostView]:
    """Return True if a captured object is a view that was made in plain Python."""
    return _marked(value, "is_stackgrad_view")


def constructor_name(value: Any) -> str | None:
    """Return the name `Vector`, `Matrix`, `Struct` or `BufferView` if the object is this constructor, else None.

    A constructor is recognized by its attribute `stackgrad_constructor`, which holds the name.
    """
    found = None if is_host_view(value) else getattr(value, "stackgrad_constructor", None)
    return found if isinstance(found, str) else None


def offset_of(field: AnyField) -> tuple[int, ...]:
    """Return the first index of each axis of a field, which is the field's `offset`, or 0 if it has none."""
    found: tuple[int, ...] = getattr(field, "offset", ())
    return found or (0,) * len(field.shape)


def index_text(field: AnyField) -> str:
    """Return the index of an element as messages write it: `i, j` for a field of two axes, `None` for a 0-d field."""
    return ", ".join("ijklmnop"[: len(field.shape)]) or "None"


def extents_type(field: FieldLike) -> Scalar:
    """Return the type of the extents of a scalar array: i32, or i64 if an extent may need more than 32 bits."""
    if isinstance(field.shape, LaunchShape):
        return i64 if getattr(field, "wide", False) else i32
    return i64 if is_wide(field.shape, offset_of(field)) else i32


def extent_source(field: AnyField, axis: int) -> tuple[FieldLike, int]:
    """Return the scalar array, and the axis of it, from which a kernel reads the extent of a field along `axis`."""
    if is_struct_field(field):
        return extent_source(next(iter(field.members.values())), axis)
    if is_matrix_field(field):
        return field.storage, axis + (len(field.element.shape) if field.element_first else 0)
    assert is_field(field)
    return field, axis


def measured_hint(field: AnyField, hint: str) -> str:
    """Return the name, such as `s.pos` in the program, of the scalar array that `extent_source` returns."""
    if is_struct_field(field):
        name, inner = next(iter(field.members.items()))
        return measured_hint(inner, f"{hint}.{name}")
    return hint
