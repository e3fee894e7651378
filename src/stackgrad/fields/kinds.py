"""Classes to ask `isinstance` for: what holds data, and whether it is a field or an ndarray.

A field is captured by the kernels that use it; an ndarray is an argument, its shape may differ from call to call.
"""
from __future__ import annotations

import enum
from typing import Any, ClassVar


class Layout(enum.IntEnum):
    """How elements of several numbers lie in memory: together (AOS), or one number of all elements together (SOA)."""

    AOS = 1
    SOA = 2


class Backend(enum.IntEnum):
    """What `sg.tensor` makes."""

    FIELD = 0
    NDARRAY = 1


class Tensor:
    """Anything that holds elements by index: fields and ndarrays. As an annotation: an argument that may be either."""

    __slots__ = ()
    _is_field: ClassVar[bool] = False
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
    _is_field = True
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
