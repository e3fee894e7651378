"""Define host objects for elements of matrix and struct fields; writing such an object writes the field.

Invariant: an element shows what the field holds now, and writing it writes the field, under the rules of field writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.words import WATCHED
from ...runtime.session import RUNTIME, stamp
from ..values import Matrix, Struct, Vector
from .conversions import convert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .array import Array
    from .struct import StructField


_ENTRIES: Any = Matrix.__dict__["data"]
"""The slot where a value keeps its entries. Elements of fields keep a view of memory there, and report reads of it."""


class TiedEntries:
    """Represent a vector or matrix element of a field by its place in the field's memory, so that writes go there.

    Attributes:
        storage: The array.
        place: The index of the element in the memory of the array.
    """

    __slots__ = ()
    storage: Array
    place: tuple[Any, ...]

    @property
    def data(self) -> np.ndarray:
        """Return the element's entries, to be read only, after notifying tapes and forward mode of the read."""
        if RUNTIME.words[WATCHED]:
            self.storage.begin_read(self.place)
        return self._form

    @property
    def _form(self) -> np.ndarray:
        return _ENTRIES.__get__(self)  # type: ignore[no-any-return]

    def _write(self, place: Any, value: np.ndarray) -> None:
        storage = self.storage
        converted = convert(value, storage.dtype, storage.label)
        for inner in _entries(place):
            storage.begin_write(self._in_storage(inner))
        self._put(place, converted)
        storage.version = stamp()

    def _put(self, place: Any, value: np.ndarray) -> None:
        self._form[place] = value

    def _in_storage(self, inner: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the index in the array's memory for an index of entries within the element."""
        axes = [k for k, part in enumerate(self.place) if isinstance(part, slice)]
        if inner == (...,):
            return self.place
        if not axes:
            return (*self.place, *inner)
        return (*inner, *(slice(None),) * (len(axes) - len(inner)), *self.place[len(axes) :])


def _entries(place: Any) -> list[tuple[Any, ...]]:
    """Return an index as a list of index tuples: one for each item if the index is a list, else one."""
    parts = place if isinstance(place, tuple) else (place,)
    if len(parts) == 1 and isinstance(parts[0], (list, np.ndarray)):
        return [(int(k),) for k in parts[0]]
    return [parts]


class RemoteEntries(TiedEntries):
    """Represent the entries of an element in device memory; each read copies them to the host."""

    __slots__ = ()

    @property
    def data(self) -> np.ndarray:
        """Return a copy of the present entries, after notifying tapes and forward mode of the read."""
        if RUNTIME.words[WATCHED]:
            self.storage.begin_read(self.place)
        return self._fetched()

    @property
    def _form(self) -> np.ndarray:
        return self.storage.buffer[self.place]  # type: ignore[no-any-return]

    def _fetched(self) -> np.ndarray:
        assert RUNTIME.remote is not None
        return RUNTIME.remote.fetch(self._form)

    def _put(self, place: Any, value: np.ndarray) -> None:
        entries = self._fetched()
        entries[place] = value
        self.storage.put(self.place, entries)


class VectorElement(TiedEntries, Vector):  # type: ignore[override]
    """Represent an element of a field of vectors; a write to it writes the field."""

    __slots__ = ("storage", "place")


class MatrixElement(TiedEntries, Matrix):  # type: ignore[override]
    """Represent an element of a field of matrices; a write to it writes the field."""

    __slots__ = ("storage", "place")


class RemoteVectorElement(RemoteEntries, Vector):  # type: ignore[override]
    """Represent an element of a field of vectors whose memory is on a device."""

    __slots__ = ("storage", "place")


class RemoteMatrixElement(RemoteEntries, Matrix):  # type: ignore[override]
    """Represent an element of a field of matrices whose memory is on a device."""

    __slots__ = ("storage", "place")


def element_of(storage: Array, place: tuple[Any, ...]) -> Matrix:
    """Return the vector or matrix at an index of an array; a write to its entries writes the array."""
    data = storage.buffer[place]
    kinds = (VectorElement, MatrixElement) if RUNTIME.remote is None else (RemoteVectorElement, RemoteMatrixElement)
    made: Matrix = object.__new__(kinds[data.ndim - 1])
    if RUNTIME.remote is None:
        _ENTRIES.__set__(made, data)
    object.__setattr__(made, "dtype", storage.dtype)
    object.__setattr__(made, "storage", storage)
    object.__setattr__(made, "place", place)
    return made


class StructElement(Struct):
    """Represent an element of a field of structs; a write to its members writes the field."""

    __slots__ = ("_field", "_place")

    @classmethod
    def at(cls, field: StructField, place: tuple[int, ...]) -> StructElement:
        """Return the element at an index of a struct field, as an object whose members read and write the field."""
        made: StructElement = object.__new__(cls)
        object.__setattr__(made, "type", field.type)
        object.__setattr__(made, "_field", field)
        object.__setattr__(made, "_place", place)
        return made

    @property
    def members(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the present values of the struct's members by name."""
        return {name: member[self._place] for name, member in self._field.members.items()}

    def __getattr__(self, name: str) -> Any:
        if name in ("_field", "_place"):  # The element is being made, and has no such attribute yet.
            raise AttributeError(name)
        found = self._field.members.get(name)
        return found[self._place] if found is not None else super().__getattr__(name)

    def __getitem__(self, name: str) -> Any:
        self._known(name)
        return self._field.members[name][self._place]

    def __setitem__(self, name: str, value: Any) -> None:
        self._known(name)
        self._field.members[name][self._place] = value

    def _known(self, name: str) -> None:
        if name not in self._field.members:
            super()._known(name)
