"""This module finds the memory words that change when an attribute of an object means something else.

An attribute that an object or a module holds itself is an entry of its dictionary. One that comes from the class is
pinned by the version tag of the class, which CPython replaces at each change of the class or of a class above it, and
by the place in the dictionary of the object where an attribute of the same name would be entered. Invariant: the words
are read in order, so that a dictionary, a table or a list of values is looked into only while the object has it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from .pinned_names import PinnedName

Words = tuple[tuple[int, int], ...]

_TYPE_AT = object.__basicsize__ - 8
"""Offset of the class in an object, in bytes."""

_TAG_AT = 384
"""Offset of the version tag in a class."""

_MANAGED_DICT_AT = -24
"""Offset of the dictionary of an object whose class says that the interpreter manages it."""

_KEYS_AT, _VALUES_AT = object.__basicsize__ + 16, object.__basicsize__ + 24
"""Offsets in a dictionary: of its table, and of the values that it keeps elsewhere, if it does."""

_LOG_SIZE_AT, _LOG_BYTES_AT, _KIND_AT, _INDICES_AT = 8, 9, 10, 32
"""Offsets in a table: of the logarithms of its slots and of their bytes, of its kind, and of the slots themselves."""

_ENTRY, _GENERAL = 16, 0
_EMPTY = -1
_PLAIN = (vars(object)["__getattribute__"], vars(ModuleType)["__getattribute__"])
_SIGNED = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
_DEFINITION = ("__code__", "__defaults__", "__kwdefaults__")


def pin_attributes(owner: Any, names: tuple[str, ...], found: tuple[Any, ...]) -> PinnedName | None:
    """Return attributes of an object as one pinned name, or None if CPython computes one or stores it unexpectedly.

    Args:
        owner: Object with the attributes.
        names: Names of the attributes.
        found: Object that each of them denotes.
    """
    if not is_expected():
        return None
    words = _joined(*[_attribute_words(owner, name, one) for name, one in zip(names, found, strict=True)])
    return None if words is None or not are_unchanged(words) else PinnedName(words, owner, found)


def pin_method(owner: Any, name: str, function: Any, receiver: Any) -> PinnedName | None:
    """Return the pinned method of an object that comes from its class, or None if it cannot be located in memory.

    Args:
        owner: Object with the method.
        name: Name of the method.
        function: What the class holds under the name: a function, or another object that makes methods.
        receiver: Object that the method is of.
    """
    if receiver is not owner or not is_expected():
        return None
    if _class_attribute(type(owner), name) is not function or _is_data(function):
        return None
    words = _absent_words(owner, name)
    return None if words is None or not are_unchanged(words) else PinnedName(words, owner, (function,))


def are_unchanged(words: Words) -> bool:
    """Return True if memory words contain what they did; they are read in order, up to the first that differs."""
    return all(_word(at) == wanted for at, wanted in words)


# ---- attributes -----------------------------------------------------------------------------------------------------


def _attribute_words(owner: Any, name: str, found: Any) -> Words | None:
    """Return the words of an attribute, or None if it is computed."""
    if type(owner) is FunctionType and name in _DEFINITION:
        return ((id(owner) + _slots()[name], 0 if found is None else id(found)),)
    if isinstance(owner, type):
        return _class_words(owner, name, found)
    kind = type(owner)
    if _class_attribute(kind, "__getattribute__") not in _PLAIN:
        return None
    from_class = _class_attribute(kind, name)
    if _is_data(from_class):
        return None
    names = getattr(owner, "__dict__", None)
    if type(names) is dict and name in names:
        return _present_words(owner, names, name, found)
    # What the class holds is what the object gives, unless it makes something else of it.
    is_plain = from_class is found and not hasattr(type(found), "__get__")
    return _absent_words(owner, name) if is_plain else None


def _class_words(owner: type, name: str, found: Any) -> Words | None:
    """Return the words of an attribute of a class that gives what it holds, or None for another attribute."""
    kind = type(owner)
    if kind.__getattribute__ is not type.__getattribute__ or _class_attribute(kind, name) is not _NOTHING:
        return None
    is_plain = type(found) is FunctionType or not hasattr(type(found), "__get__")
    if _class_attribute(owner, name) is not found or not is_plain:
        return None
    return _joined(_kind_words(owner), _tag_words(owner))


def _present_words(owner: Any, names: dict[str, Any], name: str, found: Any) -> Words | None:
    """Return the words of an attribute that is in the dictionary of an object."""
    table, values = _word(id(names) + _KEYS_AT), _word(id(names) + _VALUES_AT)
    entry, _ = _probe(table, name)
    if entry < 0:
        return None
    if values:
        place: Words = ((_value_at(values, entry), id(found)),)
    else:
        at = _entry_at(table, entry)
        place = ((at, _word(at)), (at + 8, id(found)))
    return _joined(_kind_words(owner), _dict_words(owner, names), place)


def _absent_words(owner: Any, name: str) -> Words | None:
    """Return words that change when an object gets an attribute of its own with this name, or its class changes."""
    names = getattr(owner, "__dict__", None)
    if names is None:
        return _kind_words(owner) if type(owner).__dictoffset__ == 0 else None
    if type(names) is not dict or name in names:
        return None
    table, values = _word(id(names) + _KEYS_AT), _word(id(names) + _VALUES_AT)
    entry, slot = _probe(table, name)
    if entry >= 0:
        # Another object of the class has such an attribute.
        place: Words | None = ((_value_at(values, entry), 0),) if values else None
    else:
        place = ((slot & -8, _word(slot & -8)),) if slot else None
    return _joined(_kind_words(owner), _dict_words(owner, names), place)


def _joined(*parts: Words | None) -> Words | None:
    """Return the words of all parts, or None if a part has none."""
    return None if None in parts else tuple([word for part in parts if part for word in part])


def _kind_words(owner: Any) -> Words | None:
    """Return the words of the class of an object: which one it is, and its version tag."""
    tag = _tag_words(type(owner))
    return None if tag is None else ((id(owner) + _TYPE_AT, id(type(owner))), *tag)


def _tag_words(kind: type) -> Words | None:
    """Return the word of the version tag of a class, or None if the class has none."""
    getattr(kind, "__doc__", None)  # A class gets its tag when something is looked up in it.
    word = _word(id(kind) + _TAG_AT)
    return ((id(kind) + _TAG_AT, word),) if word & 0xFFFFFFFF else None


def _dict_words(owner: Any, names: dict[str, Any]) -> Words | None:
    """Return the words that lead from an object to its dictionary, and from there to its table and values."""
    offset = type(owner).__dictoffset__
    at = id(owner) + (offset if offset > 0 else _MANAGED_DICT_AT)
    if not offset or _word(at) != id(names):
        return None
    words = (id(names) + _KEYS_AT, id(names) + _VALUES_AT)
    return ((at, id(names)), *[(word, _word(word)) for word in words])


class _Nothing:
    """Represent that a class holds nothing under a name."""


_NOTHING = _Nothing()


def _class_attribute(kind: type, name: str) -> Any:
    """Return what a class or a class above it holds under a name, or _NOTHING."""
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), _NOTHING)


def _is_data(held: Any) -> bool:
    """Return True if an object in a class decides about the attribute, whatever the dictionary of an object holds."""
    return hasattr(type(held), "__set__") or hasattr(type(held), "__delete__")


# ---- dictionaries ---------------------------------------------------------------------------------------------------


def _probe(table: int, name: str) -> tuple[int, int]:
    """Return the number of a name's entry in a table, and the address of its slot.

    The number is negative if the table does not have the name. The slot is then the one that the name would get, or 0
    if not all names of the table are texts.
    """
    if _byte(table + _KIND_AT) == _GENERAL:
        return -1, 0
    bits = _byte(table + _LOG_SIZE_AT)
    width, mask = 1 << (_byte(table + _LOG_BYTES_AT) - bits), (1 << bits) - 1
    number = _SIGNED[width]
    left = hash(name) & 0xFFFFFFFFFFFFFFFF
    slot, free = left & mask, 0
    while True:
        at = table + _INDICES_AT + slot * width
        entry = number.from_address(at).value
        if entry < 0:
            free = free or at
        if entry == _EMPTY:
            return -1, free
        if entry >= 0 and _object(_word(_entry_at(table, entry))) == name:
            return entry, at
        left >>= 5
        slot = (slot * 5 + left + 1) & mask


def _entry_at(table: int, entry: int) -> int:
    """Return the address of an entry, which is a key and a value."""
    return table + _INDICES_AT + (1 << _byte(table + _LOG_BYTES_AT)) + _ENTRY * entry


def _value_at(values: int, entry: int) -> int:
    """Return the address of a value that a dictionary keeps beside its table."""
    return values + 8 * entry


def _object(at: int) -> Any:
    return ctypes.cast(at, ctypes.py_object).value


def _word(at: int) -> int:
    return ctypes.c_int64.from_address(at).value


def _byte(at: int) -> int:
    return ctypes.c_uint8.from_address(at).value


@cache
def _slots() -> dict[str, int]:
    """Return the offset in a function of each part of its definition; empty if one was not found."""

    def tried(first: float = 0.5, *, second: float = 0.5) -> None:
        """Have all parts."""

    words = [_word(id(tried) + at) for at in range(0, FunctionType.__basicsize__, 8)]
    found = {name: id(getattr(tried, name)) for name in _DEFINITION}
    return {name: 8 * words.index(part) for name, part in found.items() if words.count(part) == 1}


# ---- trial ----------------------------------------------------------------------------------------------------------


@cache
def is_expected() -> bool:
    """Return True if a trial on objects, classes and functions confirms the assumed memory layout of CPython."""
    from .attribute_trial import is_confirmed

    return len(_slots()) == len(_DEFINITION) and is_confirmed(_attribute_words, _absent_words, are_unchanged)
