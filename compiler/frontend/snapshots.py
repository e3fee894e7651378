"""What an object was like, to be compared with what stands in its place later.

Invariant: a snapshot keeps no object of the program alive: it has numbers, texts and copies of arrays, and refers to
all else weakly, as far as that is possible.
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
"""Containers in containers; what is deeper inside stands by its identity."""

_FRESH_DEPTH = 6
"""The same for the attributes of objects that are made anew whenever they are asked for."""


def word(number: Any) -> Any:
    """What equals that of another number or text only if a kernel could not tell them apart: 1, 1.0 and True differ."""
    if isinstance(number, np.generic):
        return type(number), number.dtype, number.tobytes()
    if isinstance(number, float):
        return type(number), number.hex()
    if isinstance(number, complex):
        return type(number), number.real.hex(), number.imag.hex()
    if isinstance(number, (range, slice)):
        return type(number), number.start, number.stop, number.step
    return type(number), number


class Number:
    """A number, a text, a type: by its value."""

    __slots__ = ("then", "_word")

    def __init__(self, found: Any) -> None:
        self.then, self._word = found, word(found)

    def holds(self, now: Any) -> bool:
        """Whether it is the same."""
        return now is self.then or (type(now) is type(self.then) and word(now) == self._word)


class Identity:
    """An object: by its identity."""

    __slots__ = ("refer",)

    def __init__(self, found: Any) -> None:
        self.refer = reference(found)

    def holds(self, now: Any) -> bool:
        """Whether it is the same object; a dead one is none."""
        return now is not None and self.refer() is now


class Method:
    """A function bound to an object, of which each look makes another one: by both."""

    __slots__ = ("_kind", "_parts")

    def __init__(self, found: Any) -> None:
        self._kind = type(found)
        self._parts = tuple(snapshot(part, 0) for part in _bound(found))

    def holds(self, now: Any) -> bool:
        """Whether it is the same function of the same object."""
        return type(now) is self._kind and all(
            one.holds(part) for one, part in zip(self._parts, _bound(now), strict=True)
        )


def _bound(method: Any) -> tuple[Any, Any]:
    if isinstance(method, BoundFunc):
        return method.func, method.receiver
    return (method.__name__ if isinstance(method, BuiltinMethodType) else method.__func__), method.__self__


class Items:
    """A list, tuple or dictionary, item by item; of those that hold numbers alone, the items are kept."""

    __slots__ = ("_kind", "_keys", "_then", "_parts")

    def __init__(self, found: Any, depth: int, inside: dict[int, Any] | None = None) -> None:
        self._kind = type(found)
        self._keys = Items(tuple(found), depth - 1) if isinstance(found, dict) else None
        items = _items(found)
        self._parts = tuple(snapshot(item, depth - 1, inside) for item in items)
        self._then = items if all(isinstance(part, Number) for part in self._parts) else None

    def holds(self, now: Any) -> bool:
        """Whether there are as many, and each is the same."""
        if type(now) is not self._kind or len(now) != len(self._parts):
            return False
        if self._keys is not None and not self._keys.holds(tuple(now)):
            return False
        items = _items(now)
        if self._then is not None and all(map(is_, items, self._then)):
            return True
        return all([part.holds(item) for part, item in zip(self._parts, items)])


def _items(found: Any) -> tuple[Any, ...]:
    return tuple(found.values()) if isinstance(found, dict) else tuple(found)


class Elements:
    """A NumPy array: a copy of its elements."""

    __slots__ = ("_kind", "_dtype", "_shape", "_bytes", "_objects")

    def __init__(self, found: np.ndarray, depth: int) -> None:
        self._kind, self._dtype, self._shape = type(found), found.dtype, found.shape
        self._objects = Items(found.ravel().tolist(), depth - 1) if found.dtype.hasobject else None
        self._bytes = b"" if self._objects else found.tobytes()

    def holds(self, now: Any) -> bool:
        """Whether type, shape and all bits are the same."""
        if type(now) is not self._kind or now.dtype != self._dtype or now.shape != self._shape:
            return False
        return now.tobytes() == self._bytes if self._objects is None else self._objects.holds(now.ravel().tolist())


class Parts:
    """An object by what it consists of, as `take` gives it: a vector or struct of the host, a view, a box."""

    __slots__ = ("_kind", "_take", "_parts")

    def __init__(
        self, found: Any, take: Callable[[Any], Any], depth: int, inside: dict[int, Any] | None = None
    ) -> None:
        self._kind, self._take = type(found), take
        self._parts = snapshot(take(found), depth - 1, inside)

    def holds(self, now: Any) -> bool:
        """Whether it is of the same class and consists of the same."""
        return type(now) is self._kind and self._parts.holds(self._take(now))


Snapshot = Number | Identity | Method | Items | Elements | Parts


def snapshot(found: Any, depth: int = _DEPTH, inside: dict[int, Any] | None = None) -> Snapshot:
    """What an object is like now. inside: if given, objects stand by their attributes, and are collected here."""
    if isinstance(found, NUMBERS):
        return Number(found)
    if isinstance(found, (MethodType, BuiltinMethodType, BoundFunc)):
        return Method(found)
    if depth <= 0:
        return Identity(found)
    if is_host_matrix(found):
        return Parts(found, lambda now: (now.dtype, now.to_numpy()), depth)
    if isinstance(found, (list, tuple, dict)):
        return Items(found, depth, inside)
    if isinstance(found, np.ndarray):
        return Elements(found, depth)
    if isinstance(found, (set, frozenset)):
        return Parts(found, lambda now: sorted(map(repr, map(word, now))), depth)
    if is_host_struct(found):
        return Parts(found, lambda now: (now.type, dict(now.members)), depth)
    if is_host_view(found):
        return Parts(found, lambda now: (now.arr, now.offset, now.size), depth)
    if isinstance(found, NDRange):
        return Parts(found, lambda now: now.axes, depth)
    if inside is not None and hasattr(found, "__dict__") and not (is_any_field(found) or isinstance(found, _LASTING)):
        inside[id(found)] = found
        return Parts(found, attributes, depth, inside)
    return Identity(found)


_LASTING = (type, FunctionType, ModuleType)


def fresh(found: Any) -> tuple[Snapshot, dict[int, Any]]:
    """What is like an object that nobody holds, as one that a property has made, and the objects that are part of it.

    They stand by their attributes.
    """
    inside: dict[int, Any] = {}
    return snapshot(found, _FRESH_DEPTH, inside), inside


def attributes(found: Any) -> dict[str, Any]:
    """What an object holds by name, those of its slots too."""
    slots = [name for kind in type(found).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    held = {name: getattr(found, name) for name in slots if name != "__dict__" and hasattr(found, name)}
    return held | dict(vars(found))


def _names(slots: str | Iterable[str]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def reference(value: Any) -> Callable[[], Any]:
    """A weak reference, or a strong one to what knows of none, as a number."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
