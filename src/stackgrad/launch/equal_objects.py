"""Recognize arguments that are other objects than in earlier calls, but equal to them for every kernel.

A call such as `k(Options(3))` or `k(lambda v: 2 * v)` gives a new object each time. Two objects are equal if they have
the same class and equal parts, down to numbers, texts, classes and modules. Objects that contain fields, or large
arrays, are recognized by identity alone. Invariant: nothing in this module keeps an argument alive after a call.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..backends.forks import free_in_child
from ..compiler.frontend.functions import NDRange
from ..compiler.frontend.members import is_container
from ..compiler.frontend.parts import Take, attributes, module_names, take_of
from ..compiler.frontend.protocols import is_any_field, is_host_matrix, is_host_struct
from ..compiler.frontend.reads import NUMBERS
from ..compiler.frontend.snapshots import is_compared_by_content, reference_to, struct_parts, word
from ..runtime.fresh_objects import Reach
from ..runtime.guards import hold

if TYPE_CHECKING:
    from ..runtime.guards import Guard

T = TypeVar("T")

_BUILT_IN = (int, float, bool, complex, str, bytes)
_MOST_PARTS = 256
_MOST_BYTES = 4096
_USES = 16
"""Number of calls with the same objects after which they get an entry of their own, which launches faster."""


class _Same:
    """Represent a key that equals another key only if both hold the very same object, which is still alive."""

    __slots__ = ("_refer", "_number")

    def __init__(self, thing: object) -> None:
        self._refer, self._number = reference_to(thing), id(thing)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, _Same) and self._number == other._number and self._refer() is other._refer() is not None
        )

    def __hash__(self) -> int:
        return self._number


class _NotComparable(Exception):
    """Signal that an object is compared by identity, or has too many parts to be compared."""


class _Place:
    """Represent the position of an object inside an argument, by the steps that lead to it.

    Attributes:
        thing: The object.
        step: A function that takes the containing object and returns this object; None if it is an argument itself.
        around: The place of the containing object, or the number of the argument.
    """

    __slots__ = ("thing", "step", "around")

    def __init__(self, thing: Any, step: Callable[[Any], Any] | None, around: Any) -> None:
        self.thing, self.step, self.around = thing, step, around


class Content:
    """Represent the contents of the arguments that a call cache usually recognizes by identity, as a key.

    Args:
        owners: The arguments.
        has_fields: True if an object that contains fields is compared by its parts, and the fields by identity.

    Attributes:
        key: A hashable key; it is equal for equal arguments.
        places: The number and the place of each object in the arguments that is compared by its parts, by id.
        lasting: Objects in the arguments, or arguments, that are compared by identity.
    """

    __slots__ = ("key", "places", "lasting", "_has_fields", "_left", "_compared")

    def __init__(self, owners: Sequence[Any], has_fields: bool = False) -> None:
        self.places: dict[int, tuple[int, _Place]] = {}
        self.lasting: list[Any] = []
        self._has_fields = has_fields
        self._left, self._compared = _MOST_PARTS, len(owners)
        self.key: Hashable = tuple([self._key(owner, None, k) for k, owner in enumerate(owners)])

    @property
    def is_compared(self) -> bool:
        """Return True if one of the arguments is compared by its parts."""
        return self._compared > 0

    def _key(self, value: Any, step: Callable[[Any], Any] | None, around: Any) -> Hashable:
        """Return the key of a part of an argument, and record its position; incomparable parts are their own key."""
        plain = _plain_key(value)
        if plain is not None:
            if isinstance(value, (set, frozenset)):
                self.places[id(value)] = len(self.places), _Place(value, step, around)
            return plain
        count, left = len(self.places), self._left
        try:
            return self._key_of_parts(value, step, around)
        except _NotComparable:
            if step is not None and self._decides(value):
                raise
            self._left = left
            for number in list(self.places)[count:]:
                del self.places[number]
            self.lasting.append(value)
            self._compared -= step is None
            return _Same, id(value)

    def _decides(self, value: Any) -> bool:
        """Return True if an incomparable object makes the object that contains it incomparable, too.

        No guard watches the parts of a compared object. So a part whose contents may change must itself be comparable.
        """
        if is_any_field(value):  # An entry that serves equal arguments would keep the fields alive that it uses.
            return not self._has_fields
        return is_compared_by_content(value)

    def _key_of_parts(self, value: Any, step: Callable[[Any], Any] | None, around: Any) -> Hashable:
        kind, take, header = _apart(value)
        seen = self.places.get(id(value))
        if seen is not None and kind is not tuple:
            return seen[0]
        place = _Place(value, step, around)
        self.places[id(value)] = len(self.places), place
        parts = take(value)
        self._left -= len(parts)
        if self._left < 0:
            raise _NotComparable
        if isinstance(parts, dict):
            names = tuple([word(name) if isinstance(name, NUMBERS) else _Same(name) for name in parts])
            keys = [self._key(one, _item(take, name), place) for name, one in parts.items()]
            return _Same(kind), header, names, tuple(keys)
        return _Same(kind), header, tuple([self._key(one, _item(take, k), place) for k, one in enumerate(parts)])


def _item(take: Take, key: Any) -> Callable[[Any], Any]:
    return lambda found: take(found)[key]


def _plain_key(value: Any) -> Hashable | None:
    """Return the key of a value without parts, or None for a value that has parts."""
    kind = type(value)
    if isinstance(value, NUMBERS):
        number: Hashable = None if _has_attributes(value) else word(value)
        return number
    if isinstance(value, (type, ModuleType)):
        return _Same(value)
    if isinstance(value, NDRange):
        return kind, value.axes, value.order
    if isinstance(value, (set, frozenset)) and all(isinstance(one, NUMBERS) for one in value):
        return kind, tuple(sorted(map(repr, map(word, value))))
    if is_host_matrix(value):
        entries = _plain_key(value.to_numpy())
        return None if entries is None else (kind, value.dtype, entries)
    if isinstance(value, np.ndarray) and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
        return kind, value.dtype, value.shape, value.tobytes()
    return None


def _has_attributes(number: Any) -> bool:
    """Return True for a number or text of a class of the program, such as one with a unit, that has attributes."""
    return type(number) not in _BUILT_IN and isinstance(number, _BUILT_IN) and bool(attributes(number))


def _apart(value: Any) -> tuple[type, Take, Hashable]:
    """Return an object's class, the function that lists its parts, and other data that distinguish it."""
    kind = type(value)
    if isinstance(value, (list, tuple, dict)):
        if getattr(value, "__dict__", None):
            raise _NotComparable
        return kind, dict if isinstance(value, dict) else tuple, None
    if isinstance(value, NUMBERS):
        return kind, attributes, word(value)
    if is_host_struct(value):
        return kind, struct_parts, None
    is_whole = is_any_field(value) or is_container(value) or is_compared_by_content(value)
    take = None if is_whole else take_of(value)
    if take is None:
        raise _NotComparable
    if isinstance(value, FunctionType):  # Guards look up its global names, in whichever module it is.
        return kind, take, (word(value.__code__), value.__name__, module_names(value) is None)
    return kind, take, None


def content_of(owners: Sequence[Any]) -> Content | None:
    """Return the `Content` of the arguments, or None if all of them are recognized by identity alone."""
    content = Content(owners)
    return content if content.is_compared else None


class Roots:
    """Hold the arguments of the call being checked, in which guards find the parts that they compare."""

    __slots__ = ("_lock", "_owners")

    def __init__(self) -> None:
        self._lock = free_in_child(threading.RLock())
        self._owners: Sequence[Any] = ()

    def ask(self, owners: Sequence[Any], question: Callable[[], T]) -> T:
        """Call a function while these arguments are those of the call being checked, and return its result."""
        with self._lock:
            before, self._owners = self._owners, owners
            try:
                return question()
            finally:
                self._owners = before

    def reaches(self, content: Content) -> Mapping[int, tuple[Any, Reach]]:
        """Return each object that `content` compares, by id, with a function that finds the object in its place."""
        return {number: (place.thing, self._reach(place)) for number, (_, place) in content.places.items()}

    def _reach(self, place: _Place) -> Reach:
        """Return a function that finds the object at a position in the arguments of the call being checked."""
        steps: list[Callable[[Any], Any]] = []
        while place.step is not None:
            steps.insert(0, place.step)
            place = place.around
        number = place.around

        def reach() -> Any:
            found = self._owners[number]
            for step in steps:
                found = step(found)
            return found

        return reach


class EqualCalls:
    """Represent the calls that a cache entry serves because their arguments equal those of its trace.

    Attributes:
        key: The key of these calls.
        lasting: Objects that must be the same in all of these calls, by id.
    """

    __slots__ = ("key", "lasting", "_content", "_guards", "_owners", "_roots", "_last", "_uses")

    def __init__(self, key: Hashable, content: Content, owners: Sequence[Any]) -> None:
        self.key = key
        self.lasting = frozenset(map(id, content.lasting))
        self._content: Content | None = content
        self._guards: tuple[Guard, ...] = ()
        self._owners: Sequence[Any] = owners
        self._roots = Roots()
        self._last: list[Reach] = []
        self._uses = 0

    def guard(self, make: Callable[[Mapping[int, tuple[Any, Reach]]], tuple[Guard, ...]]) -> None:
        """Create guards on the objects that the finished trace read, except the contents of the arguments.

        Args:
            make: A function that returns guards, given how to reach each object in the arguments of a later call.
        """
        content, self._content = self._content, None
        assert content is not None, "called once"
        owners, self._owners = self._owners, ()
        self._guards = self._roots.ask(owners, lambda: make(self._roots.reaches(content)))

    def hold(self, owners: Sequence[Any]) -> bool:
        """Return True if a trace with these arguments would read the same values as the trace of the entry did."""
        return self._roots.ask(owners, partial(hold, self._guards))

    def count(self, owners: Sequence[Any]) -> bool:
        """Count a call; return False after many calls with the same objects, which deserve an entry of their own."""
        is_same = len(self._last) == len(owners) and all(
            last() is owner for last, owner in zip(self._last, owners, strict=True)
        )
        self._uses = self._uses + 1 if is_same else 0
        if not is_same:
            self._last = [_weakly(owner) for owner in owners]
        return self._uses < _USES


def _weakly(owner: Any) -> Reach:
    """Return a weak reference to an object, or, if it allows none, a reference that is already dead."""
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: None
