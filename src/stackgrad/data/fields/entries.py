"""Let a program place the entries of a field of vectors or matrices one by one; together they place the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn
from weakref import WeakKeyDictionary

from ...runtime.usage_errors import FieldError
from .scalar import ScalarField

if TYPE_CHECKING:
    from .array import Array
    from .matrix import MatrixField

Node = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape and the offset with which an entry is placed."""


class FieldEntry:
    """Represent one entry of a field of vectors or matrices that has no memory yet, to be placed in a tree.

    It is a `ScalarField` to `isinstance`, by which programs tell what they place; it can only be placed.

    Attributes:
        field: The field.
        indices: The row and the column of the entry.
    """

    __slots__ = ("field", "indices")

    def __init__(self, field: MatrixField, indices: tuple[int, int]) -> None:
        self.field, self.indices = field, indices

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of the field if it has memory, so that gradients are placed with the last entry."""
        return self.field.arrays if self.field.storage.is_placed else ()

    @property  # type: ignore[misc]
    def __class__(self) -> type[ScalarField]:  # type: ignore[override]
        """Return ScalarField, so that `isinstance` takes an entry for what it is in the peers."""
        return ScalarField

    def __getattr__(self, name: str) -> NoReturn:
        """Raise FieldError, because an entry is no field of its own."""
        if name.startswith(("__", "is_stackgrad", "stackgrad_")):
            raise AttributeError(name)
        reason = f"entry {self.indices} of {self.field.label} is no field of its own, and has no {name!r}"
        raise FieldError(reason, "place it, and use x[i][k] or to_numpy() of the whole field")

    def __getitem__(self, index: object) -> NoReturn:
        """Raise FieldError, because the elements of the entry are in the field."""
        self.__getattr__("element")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        """Raise FieldError, because the elements of the entry are in the field."""
        self.__getattr__("element")

    def __repr__(self) -> str:
        return f"<entry {self.indices} of {self.field.label}>"


class PlacedEntries:
    """Track the entries of fields that were placed while others of the same field were not."""

    def __init__(self) -> None:
        self._nodes: WeakKeyDictionary[Array, dict[tuple[int, int], Node]] = WeakKeyDictionary()

    def add(self, entry: FieldEntry, node: Node) -> bool:
        """Record that an entry is placed, and return True if it is the last one of its field.

        Raises:
            FieldError: The entry is placed twice, or with another shape or offset than an earlier one.
        """
        field = entry.field
        nodes = self._nodes.setdefault(field.storage, {})
        if entry.indices in nodes or field.storage.is_placed:
            raise FieldError(f"entry {entry.indices} of {field.label} is placed already", "place each entry once")
        if other := next((n for n in nodes.values() if n != node), None):
            reason = f"entries of {field.label} are placed with the shapes {other[0]} and {node[0]}"
            if other[0] == node[0]:
                reason = f"entries of {field.label} are placed with the offsets {other[1]} and {node[1]}"
            raise FieldError(reason, "place all entries of a field with one shape and offset")
        nodes[entry.indices] = node
        return len(nodes) == field.n * field.m
