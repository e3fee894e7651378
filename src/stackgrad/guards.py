"""What a traced kernel took from the objects it was traced for, so that a change of it is seen at the next launch.

Invariant: a guard holds neither the object nor what it found there, unless it is a number or a text.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from .compiler.frontend.context import Attribute
from .compiler.frontend.protocols import is_host_matrix
from .compiler.ir.types import Scalar

_VALUES = (int, float, bool, str, type(None), Scalar)
_HOLDERS = (list, tuple, dict)
_MISSING = object()


class Guard:
    """One attribute of one object: `holds` says whether it still is what it was."""

    __slots__ = ("owner", "name", "expected", "is_value")

    def __init__(self, owner: Callable[[], Any], name: str, found: Any) -> None:
        self.owner = owner
        self.name = name
        self.is_value = _is_value(found)
        self.expected = _frozen(found) if self.is_value else _reference(found)

    def holds(self) -> bool:
        """Whether the attribute is unchanged."""
        found = getattr(self.owner(), self.name, _MISSING)
        if not self.is_value:
            return found is not _MISSING and self.expected() is found
        return _is_value(found) and _frozen(found) == self.expected


def guards_of(attributes: Iterable[Attribute], roots: Iterable[Any]) -> tuple[Guard, ...]:
    """Guards of the attributes that were read from these objects, and from objects found in them."""
    inside = {id(root) for root in roots}
    made: dict[tuple[int, str], Guard] = {}
    for attribute in attributes:
        owner, name, found = attribute.owner, attribute.name, attribute.found
        if id(owner) not in inside or _is_code(found):
            continue
        made.setdefault((id(owner), name), Guard(_reference(owner), name, found))
        if not _is_value(found):
            inside.add(id(found))
    return tuple(made.values())


def _is_value(found: Any) -> bool:
    return isinstance(found, (*_VALUES, *_HOLDERS)) or is_host_matrix(found)


def _frozen(found: Any) -> Any:
    """A copy that equals another one only if a kernel could not tell them apart: 1, 1.0 and True differ, NaN is NaN.

    Objects in a list stand by their identity; those that matter live as long as what was traced for them.
    """
    if isinstance(found, (list, tuple)):
        return type(found), tuple(map(_frozen, found))
    if isinstance(found, dict):
        return dict, tuple((key, _frozen(value)) for key, value in found.items())
    if is_host_matrix(found):
        data = found.to_numpy()
        return type(found), found.dtype, data.shape, data.dtype, data.tobytes()
    if isinstance(found, _VALUES):
        return type(found), found.hex() if isinstance(found, float) else found
    return type(found), id(found)


def _is_code(found: Any) -> bool:
    """Whether it is a method or class, of which each look makes another object and which programs do not change."""
    return isinstance(found, (type, ModuleType, FunctionType)) or (callable(found) and not hasattr(found, "__dict__"))


def _reference(owner: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner
