"""This module finds the memory words that change when a global or closure name of a kernel is bound to a new object.

Machine code compares these words. A cell of a closure holds one pointer. A module's dictionary leads to its table, in
which a name has an entry of two pointers, key and value; a table that was replaced is another one, an entry that was
removed is empty. Invariant: the words are read in order, so that a table is looked into only while it is the
dictionary's.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

CELL_AT = object.__basicsize__
"""Offset of the content in a cell, in bytes."""

_KEYS_AT, _VALUES_AT = object.__basicsize__ + 16, object.__basicsize__ + 24
"""Offsets in a dictionary: of its table, and of the values that it keeps elsewhere, if it does."""

_LOG_BYTES_AT, _KIND_AT, _COUNT_AT, _INDICES_AT = 9, 10, 24, 32
"""Offsets in a table of a dictionary, in bytes.

They are those of the logarithm of the bytes of its indices; of the kind, which says if all keys are texts; of the
number of entries in use; and of the indices, behind which the entries stand.
"""

_ENTRY = 16
_TEXTS = 1


class PinnedName(NamedTuple):
    """Represent a pinned name: a Python variable, with memory words that change if it denotes another object.

    Attributes:
        words: Addresses of words, each with what it contains.
        owner: Object that the words belong to.
        named: Objects whose addresses words contain, such as the one that the variable denotes.
    """

    words: tuple[tuple[int, int], ...]
    owner: Any
    named: tuple[Any, ...]


def pin_cell(function: FunctionType, cell: int, found: Any) -> PinnedName | None:
    """Return the pinned name of a closure variable, or None if CPython stores the variable in an unexpected way.

    Args:
        function: Function with the closure.
        cell: Number of the cell in the closure.
        found: Object that the variable denotes.
    """
    assert function.__closure__ is not None
    at = id(function.__closure__[cell]) + CELL_AT
    return PinnedName(((at, id(found)),), function, (found,)) if is_expected() and _word(at) == id(found) else None


def pin_global(function: FunctionType, name: str, found: Any) -> PinnedName | None:
    """Return the pinned name of a global variable, or None if its dictionary entry cannot be located in memory.

    Args:
        function: Function whose globals hold the name.
        name: Name of the variable.
        found: Object that the variable denotes.
    """
    if type(function.__globals__) is not dict or not is_expected():
        return None
    entry = _entry(function.__globals__, name, found)
    if entry is None:
        return None
    at = id(function.__globals__) + _KEYS_AT
    return PinnedName(((at, _word(at)), (entry, _word(entry)), (entry + 8, id(found))), function, (found,))


def _entry(names: dict[str, Any], name: str, found: Any) -> int | None:
    """Return the address of a name's entry in a dictionary, or None if the entry cannot be located in memory."""
    table = _word(id(names) + _KEYS_AT)
    if _word(id(names) + _VALUES_AT) or _byte(table + _KIND_AT) != _TEXTS:
        return None
    first = table + _INDICES_AT + (1 << _byte(table + _LOG_BYTES_AT))
    entries = (ctypes.c_int64 * (2 * _word(table + _COUNT_AT))).from_address(first)[:]
    wanted = id(found)
    for k in range(1, len(entries), 2):
        if entries[k] == wanted and _is_name(entries[k - 1], name, names):
            return first + _ENTRY * (k // 2)
    return None


def _is_name(key: int, name: str, names: dict[str, Any]) -> bool:
    """Return True if the object at a memory address is a dictionary's key object for the text `name`."""
    return key == id(name) or any(id(one) == key for one in names if one == name)


def _word(at: int) -> int:
    return ctypes.c_int64.from_address(at).value


def _byte(at: int) -> int:
    return ctypes.c_uint8.from_address(at).value


@cache
def is_expected() -> bool:
    """Return True if a trial on a few cells and dictionaries confirms the assumed memory layout of CPython."""
    numbers = [float(k) + 0.5 for k in range(40)]
    names = {f"name{k}": number for k, number in enumerate(numbers)}
    # A name that is removed and set again leaves an empty entry in the table.
    del names["name3"]
    names["name3"] = numbers[3]
    table = _word(id(names) + _KEYS_AT)
    before = {f"name{k}": _entry(names, f"name{k}", number) for k, number in enumerate(numbers)}
    names["name5"] = 1.0
    places = [place for place in before.values() if place is not None]
    changed = before["name5"]
    return (
        len(set(places)) == len(numbers)
        and changed is not None
        and _word(changed + 8) == id(names["name5"])
        and _word(id(names) + _KEYS_AT) == table
        and _is_cell_expected()
    )


def _is_cell_expected() -> bool:
    """Return True if a closure cell holds its object at offset CELL_AT."""
    content = 0.25

    def inner() -> float:
        return content

    assert inner.__closure__ is not None
    return _word(id(inner.__closure__[0]) + CELL_AT) == id(inner())
