"""Define the classes to ask `isinstance` for: fields, ndarrays and tensors.

A field is captured by the kernels that use it. An ndarray is an argument, whose shape may differ from call to call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

ShapeLike = int | Sequence[int]


class Layout(enum.IntEnum):
    """The order in memory of elements with several numbers.

    With AOS the numbers of an element lie together; with SOA, one number of all elements.
    """

    AOS = 1
    SOA = 2


class Backend(enum.IntEnum):
    """The kind of array that `sg.tensor` makes."""

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
    """The base of fields and ndarrays; as an annotation, it accepts an argument of either kind."""

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
            """Return True if an adjoint exists and has memory."""

        @property
        def needs_dual(self) -> bool:
            """Return True if a tangent exists and has memory."""

        @property
        def name(self) -> str | None:
            """Return the name that the user gave, or None."""

        @property
        def label(self) -> str:
            """Return the name for messages."""

        @property
        def is_placed(self) -> bool:
            """Return True if there is memory."""

        @property
        def grad(self) -> Tensor:
            """Return the adjoint."""

        @property
        def dual(self) -> Tensor:
            """Return the tangent."""

        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...  # Only in kernels: the loop indices.
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def fill(self, value: Any, /) -> None:
            """Overwrite every element with one value."""

        def copy_from(self, other: Any, /) -> None:
            """Overwrite the content with that of a field or ndarray of the same shape."""

        def to_numpy(self, dtype: Any = None) -> Any:
            """Return the contents as a NumPy array, or a dict of them for structs."""

        def from_numpy(self, content: Any, /) -> None:
            """Overwrite the content with that of an array of the same shape."""

        def to_torch(self, device: Any = None) -> Any:
            """Return the contents as a torch tensor, or a dict of them for structs."""

        def from_torch(self, content: Any, /) -> None:
            """Overwrite the content with that of a torch tensor of the same shape."""

        def to_jax(self) -> Any:
            """Return the contents as a JAX array, or a dict of them for structs."""

        def from_jax(self, content: Any, /) -> None:
            """Overwrite the content with that of a JAX array of the same shape."""

    def has_grad(self) -> bool:
        """Return True if an adjoint exists and has memory."""
        return bool(self.needs_grad)

    def has_dual(self) -> bool:
        """Return True if a tangent exists and has memory."""
        return bool(self.needs_dual)

    def _unwrap(self) -> Any:
        """Return the object itself, because nothing is wrapped."""
        return self

    def __bool__(self) -> bool:
        return True


class Field(Tensor):
    """The base class of fields: scalar, vector, matrix and struct."""

    __slots__ = ()
    stackgrad_annotation = "field"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Field:
            """Return the adjoint."""

        @property
        def dual(self) -> Field:
            """Return the tangent."""


class Ndarray(Tensor):
    """The base class of ndarrays: scalar, vector and matrix."""

    __slots__ = ()
    stackgrad_annotation = "ndarray"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Ndarray:
            """Return the adjoint."""

        @property
        def dual(self) -> Ndarray:
            """Return the tangent."""


def wrap(tensor: object) -> Tensor:
    """Return the field or ndarray itself. Raise TypeError for anything else."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{type(tensor).__name__} is neither a field nor an ndarray")
    return tensor
