"""Classes to ask `isinstance` for: what holds data, and whether it is a field or an ndarray.

A field is captured by the kernels that use it; an ndarray is an argument, its shape may differ from call to call.
"""
from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, TypedDict

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

    def has_grad(self) -> bool:
        """Whether an adjoint exists and has memory."""
        return bool(self.needs_grad)  # type: ignore[attr-defined]

    def has_dual(self) -> bool:
        """Whether a tangent exists and has memory."""
        return bool(self.needs_dual)  # type: ignore[attr-defined]

    def _unwrap(self) -> Any:
        """The object itself: nothing is wrapped here."""
        return self

    def __bool__(self) -> bool:
        return True


class Field(Tensor):
    """Base class of fields: scalar, vector, matrix and struct."""

    __slots__ = ()
    stackgrad_annotation = "field"


class Ndarray(Tensor):
    """Base class of ndarrays: scalar, vector and matrix."""

    __slots__ = ()
    stackgrad_annotation = "ndarray"


def wrap(tensor: Any) -> Tensor:
    """The field or ndarray itself; raises TypeError for anything else."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{type(tensor).__name__} is neither a field nor an ndarray")
    return tensor
