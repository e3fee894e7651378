"""This module takes snapshots of Python objects, against which the same objects are compared before later launches.

Invariant: a snapshot keeps no object of the program alive. It contains numbers, texts and copies of arrays, and refers
to all other objects weakly, as far as that is possible.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from operator import is_
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .functions import BoundFunc, NDRange
from .protocols import is_any_field, is_host_matrix, is_host_struct, is_host_view
from .reads import NUMBERS

_DEPTH = 16
"""This limit bounds the nesting of containers; a container that is nested deeper is compared by identity."""

_FRESH_DEPTH = 6
"""This limit bounds the nesting of attributes for objects that are made anew at each request."""


def word(number: Any) -> Any:
    """Return a key of a number or text; equal keys mean that a kernel cannot distinguish the two.

    For example, 1, 1.0 and True have different words.
    """
    if isinstance(number, np.generic):
        return type(number), number.dtype, number.tobytes()
    if isinstance(number, float):
        return type(number), number.hex()
    if isinstance(number, complex):
        return type(number), number.real.hex(), number.imag.hex()
    if isinstance(number, (range, slice)):
        return type(number), number.start, number.stop, number.step
    return type(number), number


class ValueSnapshot:
    """A `ValueSnapshot` is the snapshot of a number, a text or a type, which is compared by value."""

    __slots__ = ("then", "_word")

    def __init__(self, found: Any) -> None:
        self.then, self._word = found, word(found)

    def holds(self, now: Any) -> bool:
        """Return True if `now` is a value with the same type and bits as the one of the snapshot."""
        return now is self.then or (type(now) is type(self.then) and word(now) == self._word)


class IdentitySnapshot:
    """An `IdentitySnapshot` is the snapshot of an object that is compared by identity."""

    __slots__ = ("refer",)

    def __init__(self, found: Any) -> None:
        self.refer = reference_to(found)

    def holds(self, now: Any) -> bool:
        """Return True if `now` is the same object. Return False if the object no longer exists."""
        return now is not None and self.refer() is now


class MethodSnapshot:
    """A `MethodSnapshot` is the snapshot of a bound method, compared by its function and its object.

    Two methods cannot be compared by identity, because each look-up makes a new one.
    """

    __slots__ = ("_kind", "_parts")

    def __init__(self, found: Any) -> None:
        self._kind = type(found)
        self._parts = tuple(snapshot(part, 0) for part in _bound(found))

    def holds(self, now: Any) -> bool:
        """Return True if `now` is a bound method of the same function and the same object."""
        return type(now) is self._kind and all(
            one.holds(part) for one, part in zip(self._parts, _bound(now), strict=True)
        )


def _bound(method: Any) -> tuple[Any, Any]:
    if isinstance(method, BoundFunc):
        return method.func, method.receiver
    return (method.__name__ if isinstance(method, BuiltinMethodType) else method.__func__), method.__self__


class ItemsSnapshot:
    """An `ItemsSnapshot` is the snapshot of a list, tuple or dictionary, which is compared item by item.

    The items themselves are kept if all of them are numbers.
    """

    __slots__ = ("_kind", "_keys", "_then", "_parts")

    def __init__(self, found: Any, depth: int, inside: dict[int, Any] | None = None) -> None:
        self._kind = type(found)
        self._keys = ItemsSnapshot(tuple(found), depth - 1) if isinstance(found, dict) else None
        items = _items(found)
        self._parts = tuple(snapshot(item, depth - 1, inside) for item in items)
        self._then = items if all(isinstance(part, ValueSnapshot) for part in self._parts) else None

    def holds(self, now: Any) -> bool:
        """Return True if the container `now` has as many items and each item equals that of the snapshot."""
        if type(now) is not self._kind or len(now) != len(self._parts):
            return False
        if self._keys is not None and not self._keys.holds(tuple(now)):
            return False
        items = _items(now)
        # Identical items need no comparison of their words.
        if self._then is not None and all(map(is_, items, self._then)):
            return True
        return all([part.holds(item) for part, item in zip(self._parts, items)])


def _items(found: Any) -> tuple[Any, ...]:
    return tuple(found.values()) if isinstance(found, dict) else tuple(found)


class ArraySnapshot:
    """An `ArraySnapshot` is the snapshot of a NumPy array: a copy of its elements."""

    __slots__ = ("_kind", "_dtype", "_shape", "_bytes", "_objects")

    def __init__(self, found: np.ndarray, depth: int) -> None:
        self._kind, self._dtype, self._shape = type(found), found.dtype, found.shape
        # The bytes of an object array are addresses, so its objects are compared instead.
        self._objects = ItemsSnapshot(found.ravel().tolist(), depth - 1) if found.dtype.hasobject else None
        self._bytes = b"" if self._objects else found.tobytes()

    def holds(self, now: Any) -> bool:
        """Return True if `now` is an array of the same type, shape and bits."""
        if type(now) is not self._kind or now.dtype != self._dtype or now.shape != self._shape:
            return False
        return now.tobytes() == self._bytes if self._objects is None else self._objects.holds(now.ravel().tolist())


class PartsSnapshot:
    """A `PartsSnapshot` is the snapshot of an object, such as a host vector or a box, that is compared part by part.

    A host vector or struct, a view, a box.

    Args:
        found: the object.
        take: function that returns the parts.
        depth: limit of the nesting of containers.
        inside: see `snapshot`.
    """

    __slots__ = ("_kind", "_take", "_parts")

    def __init__(
        self, found: Any, take: Callable[[Any], Any], depth: int, inside: dict[int, Any] | None = None
    ) -> None:
        self._kind, self._take = type(found), take
        self._parts = snapshot(take(found), depth - 1, inside)

    def holds(self, now: Any) -> bool:
        """Return True if `now` has the same class and the same parts as the object of the snapshot."""
        return type(now) is self._kind and self._parts.holds(self._take(now))


Snapshot = ValueSnapshot | IdentitySnapshot | MethodSnapshot | ItemsSnapshot | ArraySnapshot | PartsSnapshot


def snapshot(found: Any, depth: int = _DEPTH, inside: dict[int, Any] | None = None) -> Snapshot:
    """Return a snapshot of an object, to compare the object with before later launches.

    Args:
        found: the object.
        depth: limit of the nesting of containers.
        inside: dictionary that collects objects by id. If it is given, objects are compared by their attributes.
    """
    if isinstance(found, NUMBERS):
        return ValueSnapshot(found)
    if isinstance(found, (MethodType, BuiltinMethodType, BoundFunc)):
        return MethodSnapshot(found)
    if depth <= 0:
        return IdentitySnapshot(found)
    if is_host_matrix(found):
        return PartsSnapshot(found, lambda now: (now.dtype, now.to_numpy()), depth)
    if isinstance(found, (list, tuple, dict)):
        return ItemsSnapshot(found, depth, inside)
    if isinstance(found, np.ndarray):
        return ArraySnapshot(found, depth)
    if isinstance(found, (set, frozenset)):
        return PartsSnapshot(found, lambda now: sorted(map(repr, map(word, now))), depth)
    if is_host_struct(found):
        return PartsSnapshot(found, lambda now: (now.type, dict(now.members)), depth)
    if is_host_view(found):
        return PartsSnapshot(found, lambda now: (now.arr, now.offset, now.size), depth)
    if isinstance(found, NDRange):
        return PartsSnapshot(found, lambda now: now.axes, depth)
    if inside is not None and hasattr(found, "__dict__") and not (is_any_field(found) or isinstance(found, _LASTING)):
        inside[id(found)] = found
        return PartsSnapshot(found, attributes, depth, inside)
    return IdentitySnapshot(found)


_LASTING = (type, FunctionType, ModuleType)


def fresh_snapshot(found: Any) -> tuple[Snapshot, dict[int, Any]]:
    """Return a snapshot of a temporary object, and the objects that are part of it, by id.

    Such an object is, for example, made by a property. The objects are compared by their attributes.
    """
    inside: dict[int, Any] = {}
    return snapshot(found, _FRESH_DEPTH, inside), inside


def attributes(found: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, those in `__slots__` included."""
    slots = [name for kind in type(found).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    held = {name: getattr(found, name) for name in slots if name != "__dict__" and hasattr(found, name)}
    return held | dict(vars(found))


def _names(slots: str | Iterable[str]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def reference_to(value: Any) -> Callable[[], Any]:
    """Return a weak reference to an object, or a strong one if the object supports no weak reference."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
