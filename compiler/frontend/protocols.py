"""What a kernel captures: fields, recognised by their attributes and never by their class.

Invariant: the frontend imports no class of the runtime, so that any storage that answers these questions can be
traced (host memory, device buffers, test doubles).
"""
from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from ..ir.types import Scalar


@runtime_checkable
class FieldLike(Protocol):
    """An array with a fixed rank and element type that kernels read and write by index.

    A 0-d field is indexed `x[None]` or `x[()]`. `grad` is the adjoint array of the same shape, or None.
    """

    is_stackgrad_field: bool
    dtype: Scalar
    shape: tuple[int, ...]
    needs_grad: bool
    grad: FieldLike | None


def is_field(value: Any) -> TypeGuard[FieldLike]:
    """Whether a captured object is a field."""
    return getattr(value, "is_stackgrad_field", False) is True
