"""Define the base classes of fields, ndarrays and tensors, which programs use in `isinstance` and annotations.

A kernel finds a field under its Python name. An ndarray is passed as an argument; its shape may differ in each call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

ShapeLike = int | Sequence[int]


class Layout(enum.IntEnum):
    """List the orders in which entries of vector or matrix elements can be stored: per element, or per entry.

    With AOS the numbers of an element lie together; with SOA, one number of all elements.
    """

    AOS = 1
    SOA = 2


class Backend(enum.IntEnum):
    """List the kinds of array that `sg.tensor` can make: field or ndarray."""

    FIELD = 0
    NDARRAY = 1


class CompoundOptions(TypedDict, total=False):
    """List the options of fields of vectors, matrices and structs; see `sg.field`."""

    needs_grad: bool
    needs_dual: bool
    name: str | None
    offset: ShapeLike | None
    layout: Layout


class FieldOptions(CompoundOptions, total=False):
    """List the options of fields of vectors and matrices."""

    order: str | None
    ndim: int | None


class TensorOptions(TypedDict, total=False):
    """List the options of `sg.tensor`, `sg.Vector.tensor` and `sg.Matrix.tensor`."""

    backend: Backend
    needs_grad: bool
    layout: Sequence[int] | None
    name: str | None


class Tensor:
    """Define the interface that fields and ndarrays share; as an annotation, it accepts either as an argument."""

    __slots__ = ()
    stackgrad_annotation: ClassVar[str] = "tensor"

    if TYPE_CHECKING:
        # Type checkers see here what every kind has, for parameters annotated with a base class; each kind defines it.
        # What depends on the kind is Any: an element is a number, vector, matrix or struct, and in kernels an operand.

        @property
        def shape(self) -> tuple[int, ...]:
            """Return the extents of all axes."""

        @property
        def ndim(self) -> int:
            """Return the number of axes."""

        @property
        def needs_grad(self) -> bool:
            """Return True if the array has an adjoint with memory."""

        @property
        def needs_dual(self) -> bool:
            """Return True if the array has a tangent with memory."""

        @property
        def name(self) -> str | None:
            """Return the name that the user gave to the array, or None if there is none."""

        @property
        def label(self) -> str:
            """Return the name of the array for messages."""

        @property
        def is_placed(self) -> bool:
            """Return True if the array has memory."""

        @property
        def grad(self) -> Tensor:
            """Return the adjoint of the array."""

        @property
        def dual(self) -> Tensor:
            """Return the tangent of the array."""

        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...  # Only in kernels: the loop indices.
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def fill(self, value: Any, /) -> None:
            """Overwrite every element with one value."""

        def copy_from(self, other: Any, /) -> None:
            """Overwrite the contents with those of a field or ndarray of the same shape."""

        def to_numpy(self, dtype: Any = None) -> Any:
            """Return the contents as a NumPy array, or as a dict of them for structs."""

        def from_numpy(self, content: Any, /) -> None:
            """Overwrite the contents with those of an array of the same shape."""

        def to_torch(self, device: Any = None) -> Any:
            """Return the contents as a torch tensor, or as a dict of them for structs."""

        def from_torch(self, content: Any, /) -> None:
            """Overwrite the contents with those of a torch tensor of the same shape."""

        def to_jax(self) -> Any:
            """Return the contents as a JAX array, or as a dict of them for structs."""

        def from_jax(self, content: Any, /) -> None:
            """Overwrite the contents with those of a JAX array of the same shape."""

    def has_grad(self) -> bool:
        """Return True if the array has an adjoint with memory."""
        return bool(self.needs_grad)

    def has_dual(self) -> bool:
        """Return True if the array has a tangent with memory."""
        return bool(self.needs_dual)

    def _unwrap(self) -> Any:
        """Return the object itself; this method exists for compatibility with wrapped tensors."""
        return self

    def __bool__(self) -> bool:
        return True


class Field(Tensor):
    """Define the base class of scalar, vector, matrix and struct fields."""

    __slots__ = ()
    stackgrad_annotation = "field"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Field:
            """Return the adjoint of the field."""

        @property
        def dual(self) -> Field:
            """Return the tangent of the field."""


class Ndarray(Tensor):
    """Define the base class of scalar, vector and matrix ndarrays."""

    __slots__ = ()
    stackgrad_annotation = "ndarray"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Ndarray:
            """Return the adjoint of the ndarray."""

        @property
        def dual(self) -> Ndarray:
            """Return the tangent of the ndarray."""


def wrap(tensor: object) -> Tensor:
    """Return a field or ndarray unchanged. Raise TypeError for any other object."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{type(tensor).__name__} is neither a field nor an ndarray")
    return tensor
