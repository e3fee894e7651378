"""Define fields and ndarrays of scalars."""

from __future__ import annotations

from typing import Any

from ..views import slice_view
from .array import Array
from .kinds import Field, Ndarray


class ScalarField(Array, Field):
    """Represent a field of scalars, as made by `sg.field`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return describe("sg.field", [str(self.dtype)], self)


class ScalarNdarray(Array, Ndarray):
    """Represent an ndarray of scalars, as made by `sg.ndarray`; its `grad` is None without needs_grad."""

    __slots__ = ()

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Return (), because elements are scalars."""
        return ()

    def __getitem__(self, index: Any) -> Any:
        """Return an element as a Python number, or a view for a slice `x[a:b]`. Raise OutOfBounds or ViewError."""
        return slice_view(self, index) if isinstance(index, slice) else Array.__getitem__(self, index)

    def __repr__(self) -> str:
        return describe("sg.ndarray", [str(self.dtype)], self)

    def _companion_of(self, kind: str, found: Any) -> Any:
        return found

    @property
    def label(self) -> str:
        """Return the name of the array for messages."""
        return Array.label.fget(self).replace("field", "ndarray", 1)  # type: ignore[attr-defined,no-any-return]


def describe(maker: str, parts: list[str], tensor: Any) -> str:
    """Return the `repr` of a field or ndarray: the call that could make it, with shape and options.

    Args:
        maker: The name of the function that makes it.
        parts: Its first arguments.
        tensor: The field or ndarray.
    """
    parts = [*parts, f"shape={tensor.shape}" if tensor.is_placed else "not placed"]
    parts += ["needs_grad=True"] if tensor.needs_grad else []
    parts += ["needs_dual=True"] if tensor.needs_dual else []
    parts += [f"name={tensor.name!r}"] if tensor.name else []
    return f"<{maker}({', '.join(parts)})>"
