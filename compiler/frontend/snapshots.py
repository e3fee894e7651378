"""This module takes snapshots of Python objects, against which the same objects are compared before later launches.

Invariant: a snapshot keeps no object of the program alive. It contains numbers, texts and copies of arrays, and refers
to all other objects weakly, as far as that is possible.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import attrgetter, is_
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from .functions import BoundFunc, NDRange
from .parts import closure_parts, function_parts, has_closure_alone, method_parts, module_names, take_of
from .protocols import is_host_matrix, is_host_struct, is_host_view
from .reads import NUMBERS
from .source import text_of

_DEPTH = 16
"""This limit bounds the nesting of containers; a container that is nested deeper is compared by identity."""

_FRESH_DEPTH = 6
"""This limit bounds the nesting of attributes for objects that are made anew at each request."""


def word(number: Any) -> Any:
    """Return a hashable key of a number or text; a kernel cannot distinguish two objects whose keys are equal.

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
    if isinstance(number, CodeType):
        # Equal code may come from texts that differ in what Python ignores and a kernel does not.
        return type(number), number.co_filename, text_of(number), number
    return type(number), number


class ValueSnapshot:
    """A `ValueSnapshot` is the snapshot of a number, a text, a type or code, which is compared by value."""

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

    __slots__ = ("_kind", "_function", "_owner")

    def __init__(self, found: Any) -> None:
        self._kind = type(found)
        function, owner = method_parts(found)
        self._function, self._owner = snapshot(function, 0), snapshot(owner, 0)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the attributes of such a method that tell it apart; empty for a method of a class written in C."""
        if self._kind is MethodType:
            return "__func__", "__self__"
        return ("func", "receiver") if self._kind is BoundFunc else ()

    def holds(self, now: Any) -> bool:
        """Return True if `now` is a bound method of the same function and the same object."""
        if type(now) is not self._kind:
            return False
        function, owner = method_parts(now)
        return self._function.holds(function) and self._owner.holds(owner)


class Fresh:
    """A `Fresh` describes a value that each read of an attribute creates anew: it holds the result of a second read.

    The value may contain other objects. Those that both reads found are not created anew, and are compared by identity.
    All others are fresh objects, and are compared by their parts.

    Attributes:
        other: the object that the second read found in the same place, or None if it found none.
        inside: dictionary that collects the fresh objects, by id.
    """

    __slots__ = ("other", "inside")

    def __init__(self, other: Any, inside: dict[int, Any]) -> None:
        self.other, self.inside = other, inside

    def parts(self, found: Any, take: Callable[[Any], Any]) -> Fresh:
        """Return the `Fresh` that describes the parts of this value, as the function `take` lists them."""
        return Fresh(take(self.other) if type(self.other) is type(found) else None, self.inside)

    def items(self, found: Any) -> list[Fresh]:
        """Return, for each item of this value, a container, the `Fresh` that describes the item."""
        count = len(found)
        is_alike = type(self.other) is type(found) and len(self.other) == count
        return [Fresh(other, self.inside) for other in (_items(self.other) if is_alike else (None,) * count)]


class FunctionSnapshot:
    """A `FunctionSnapshot` is the snapshot of a function that each read of an attribute creates anew.

    Two such functions are equal if they have the same code and module, and equal defaults, annotations and closures.
    """

    __slots__ = ("_code", "_names", "_take", "_parts")

    def __init__(self, found: FunctionType, depth: int, fresh: Fresh) -> None:
        self._code, self._names = ValueSnapshot(found.__code__), module_names(found)
        self._take = closure_parts if has_closure_alone(found) else function_parts
        self._parts = snapshot(self._take(found), depth - 1, fresh.parts(found, self._take))

    def holds(self, now: Any) -> bool:
        """Return True if the function has the same code and equal parts."""
        return (
            type(now) is FunctionType
            and module_names(now) is self._names
            and self._code.holds(now.__code__)
            and has_closure_alone(now) is (self._take is closure_parts)
            and self._parts.holds(self._take(now))
        )


class ItemsSnapshot:
    """An `ItemsSnapshot` is the snapshot of a list, tuple or dictionary, which is compared item by item.

    Attributes:
        then: the items themselves if all of them are numbers, else None.
        parts: the snapshot of each item.
    """

    __slots__ = ("_kind", "_names", "_keys", "then", "parts")

    def __init__(self, found: Any, depth: int, fresh: Fresh | None = None) -> None:
        self._kind = type(found)
        self._names = tuple(found) if isinstance(found, dict) and all(type(name) is str for name in found) else None
        is_named = self._names is not None or not isinstance(found, dict)
        self._keys = None if is_named else ItemsSnapshot(tuple(found), depth - 1)
        items = _items(found)
        others = [None] * len(items) if fresh is None else fresh.items(found)
        self.parts = tuple(snapshot(item, depth - 1, other) for item, other in zip(items, others))
        self.then = items if all(isinstance(part, ValueSnapshot) for part in self.parts) else None

    @property
    def is_fixed(self) -> bool:
        """Return True for a tuple of numbers, which cannot change as long as it is alive."""
        return self._kind is tuple and self.then is not None

    def holds(self, now: Any) -> bool:
        """Return True if the container `now` has as many items and each item equals that of the snapshot."""
        if type(now) is not self._kind or len(now) != len(self.parts):
            return False
        if self._names is not None:
            if tuple(now) != self._names:
                return False
        elif self._keys is not None and not self._keys.holds(tuple(now)):
            return False
        items = _items(now)
        # Identical items need no comparison of their words.
        if self.then is not None and all(map(is_, items, self.then)):
            return True
        return all([part.holds(item) for part, item in zip(self.parts, items)])


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

    Args:
        found: the object, such as a host vector, struct or view, or an `NDRange`.
        take: function that returns the parts of such an object.
        depth: number of containers that may nest; objects deeper inside are compared by identity.
        fresh: description of the object if it is a fresh object, else None.
    """

    __slots__ = ("_kind", "_take", "_parts")

    def __init__(self, found: Any, take: Callable[[Any], Any], depth: int, fresh: Fresh | None = None) -> None:
        self._kind, self._take = type(found), take
        self._parts = snapshot(take(found), depth - 1, None if fresh is None else fresh.parts(found, take))

    def holds(self, now: Any) -> bool:
        """Return True if `now` has the same class and the same parts as the object of the snapshot."""
        return type(now) is self._kind and self._parts.holds(self._take(now))


Snapshot = (
    ValueSnapshot | IdentitySnapshot | MethodSnapshot | FunctionSnapshot | ItemsSnapshot | ArraySnapshot | PartsSnapshot
)


def snapshot(found: Any, depth: int = _DEPTH, fresh: Fresh | None = None) -> Snapshot:
    """Return a snapshot of an object, to compare the object with before later launches.

    Args:
        found: the object.
        depth: number of containers that may nest; objects deeper inside are compared by identity.
        fresh: description of the object if it is a fresh object, or None if objects are compared by identity.
    """
    if isinstance(found, (*NUMBERS, CodeType)):
        return ValueSnapshot(found)
    if fresh is not None and found is fresh.other:
        fresh = None
    if fresh is None and isinstance(found, (MethodType, BuiltinMethodType, BoundFunc)):
        return MethodSnapshot(found)
    if depth <= 0:
        return IdentitySnapshot(found)
    made = _container_snapshot(found, depth, fresh)
    if made is not None:
        return made
    take = None if fresh is None else take_of(found)
    if fresh is None or take is None:
        return IdentitySnapshot(found)
    fresh.inside[id(found)] = found
    if isinstance(found, FunctionType):
        return FunctionSnapshot(found, depth, fresh)
    return PartsSnapshot(found, take, depth, fresh)


def _container_snapshot(found: Any, depth: int, fresh: Fresh | None) -> Snapshot | None:
    """Return a snapshot of a container or array, which is compared by its items, or None for any other object."""
    if is_host_matrix(found):
        return PartsSnapshot(found, _matrix_parts, depth)
    if isinstance(found, (list, tuple, dict)):
        return ItemsSnapshot(found, depth, fresh)
    if isinstance(found, np.ndarray):
        return ArraySnapshot(found, depth)
    if isinstance(found, (set, frozenset)):
        return PartsSnapshot(found, lambda now: sorted(map(repr, map(word, now))), depth)
    if is_host_struct(found):
        return PartsSnapshot(found, struct_parts, depth)
    if is_host_view(found):
        return PartsSnapshot(found, lambda now: (now.arr, now.offset, now.size), depth)
    if isinstance(found, NDRange):
        return PartsSnapshot(found, lambda now: (now.axes, now.order), depth)
    return None


_CONTAINERS = (list, tuple, dict, set, frozenset, np.ndarray)


def is_compared_by_content(found: Any) -> bool:
    """Return True if a snapshot of this object is compared by its items or parts, not by identity."""
    return isinstance(found, _CONTAINERS) or is_host_matrix(found) or is_host_struct(found) or is_host_view(found)


def struct_parts(found: Any) -> tuple[Any, dict[str, Any]]:
    """Return the type and the members of a struct of the host."""
    return found.type, dict(found.members)


def _matrix_parts(found: Any) -> tuple[Any, Any]:
    return found.dtype, found.to_numpy()


def fresh_snapshot(found: Any, again: Any) -> tuple[Snapshot, dict[int, Any]]:
    """Return a snapshot of a fresh object, which each read creates anew, and the fresh objects inside of it, by id.

    Such an object is, for example, the result of a property. It is compared by its parts.

    Args:
        found: the object that the first read found.
        again: the object that a second read found in the same place.
    """
    inside: dict[int, Any] = {}
    return snapshot(found, _FRESH_DEPTH, Fresh(again, inside)), inside


class Identity(NamedTuple):
    """An `Identity` says that a snapshot holds while attributes, or global names, denote the same objects.

    Attributes:
        owner: the object with the attributes, or the function with the global names.
        names: the attributes or global names; a dot leads to an attribute of an attribute.
        values: the object that each of them denotes.
    """

    owner: Any
    names: tuple[str, ...]
    values: tuple[Any, ...]


def identical(owner: Any, names: tuple[str, ...], then: Snapshot, now: Any) -> Identity | None:
    """Return the identity that makes a snapshot hold, or None if there is none.

    Args:
        owner: the object that was looked at.
        names: what was read of it.
        then: the snapshot of the value that was read, or of the tuple of values if there are several names.
        now: the present value.
    """
    if len(names) > 1:
        parts = then.parts if isinstance(then, ItemsSnapshot) else ()
        is_all = len(parts) == len(names) and all(_is_fixed(part, one) for part, one in zip(parts, now))
        return Identity(owner, names, tuple(now)) if is_all else None
    (name,) = names
    if isinstance(then, MethodSnapshot) and then.parts and then.holds(now):
        dotted = tuple(f"{name}.{part}" for part in ("__class__", *then.parts))
        return Identity(owner, dotted, attrgetter(*dotted)(owner))
    return Identity(owner, names, (now,)) if _is_fixed(then, now) else None


def _is_fixed(then: Snapshot, now: Any) -> bool:
    """Return True if a snapshot holds for an object, and for as long as it is alive."""
    if isinstance(then, IdentitySnapshot):
        return then.holds(now)
    if isinstance(then, ItemsSnapshot):
        return then.is_fixed and then.holds(now) and then.then is now
    return isinstance(then, ValueSnapshot) and then.then is now


def reference_to(value: Any) -> Callable[[], Any]:
    """Return a weak reference to an object, or a strong one if the object supports no weak reference."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
