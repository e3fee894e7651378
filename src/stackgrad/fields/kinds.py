"""Classes to ask `isinstance` for: what holds data, and whether it is a field or an ndarray.

A field is captured by the kernels that use it; an ndarray is an argument, its shape may differ from call to call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

Shape = int | Sequence[int]


class Layout(enum.IntEnum):
    """How elements of several numbers lie in memory: together (AOS), or one number of all elements together (SOA)."""

    AOS = 1
    SOA = 2


class Backend(enum.IntEnum):
    """What `sg.tensor` makes."""

    FIELD = 0
    NDARRAY = 1


class CompoundOptions(TypedDict, total=False):
    """Options of fields of vectors, matrices and structs; see `sg.field`."""

    needs_grad: bool
    needs_dual: bool
    name: str | None
    offset: Shape | None
    layout: Layout


class FieldOptions(CompoundOptions, total=False):
    """Options of fields of vectors and matrices."""

    order: str | None
    ndim: int | None


class TensorOptions(TypedDict, total=False):
    """Options of `sg.tensor` and its siblings."""

    backend: Backend
    needs_grad: bool
    layout: Sequence[int] | None
    name: str | None


class Tensor:
    """Anything that holds elements by index: fields and ndarrays. As an annotation: an argument that may be either."""

    __slots__ = ()
    stackgrad_annotation: ClassVar[str] = "tensor"

    if TYPE_CHECKING:
        # What every kind has, for parameters annotated with a base class; each kind defines and documents it. What
        # the kind decides is Any: an element is a number, a vector, a matrix or a struct, and to kernels an operand.

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def needs_grad(self) -> bool: ...
        @property
        def needs_dual(self) -> bool: ...
        @property
        def name(self) -> str | None: ...
        @property
        def label(self) -> str: ...
        @property
        def is_placed(self) -> bool: ...
        @property
        def grad(self) -> Tensor: ...
        @property
        def dual(self) -> Tensor: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...  # in kernels alone: the indices
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def fill(self, value: Any, /) -> None: ...
        def copy_from(self, other: Any, /) -> None: ...
        def to_numpy(self, dtype: Any = None) -> Any: ...
        def from_numpy(self, content: Any, /) -> None: ...
        def to_torch(self, device: Any = None) -> Any: ...
        def from_torch(self, content: Any, /) -> None: ...
        def to_jax(self) -> Any: ...
        def from_jax(self, content: Any, /) -> None: ...

    def has_grad(self) -> bool:
        """Whether an adjoint exists and has memory."""
        return bool(self.needs_grad)

    def has_dual(self) -> bool:
        """Whether a tangent exists and has memory."""
        return bool(self.needs_dual)

    def _unwrap(self) -> Any:
        """The object itself: nothing is wrapped here."""
        return self

    def __bool__(self) -> bool:
        return True


class Field(Tensor):
    """Base class of fields: scalar, vector, matrix and struct."""

    __slots__ = ()
    stackgrad_annotation = "field"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Field: ...
        @property
        def dual(self) -> Field: ...


class Ndarray(Tensor):
    """Base class of ndarrays: scalar, vector and matrix."""

    __slots__ = ()
    stackgrad_annotation = "ndarray"

    if TYPE_CHECKING:

        @property
        def grad(self) -> Ndarray: ...
        @property
        def dual(self) -> Ndarray: ...


def wrap(tensor: Any) -> Tensor:
    """The field or ndarray itself; raises TypeError for anything else."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{type(tensor).__name__} is neither a field nor an ndarray")
    return tensor
