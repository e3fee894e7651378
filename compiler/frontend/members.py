"""This module defines stand-ins for dataclass-like arguments, whose members each launch passes anew.

Invariant: code that runs at compile time sees only those parts of the object that are the same for all launches of one
specialization. A request for more is an error, and never gives a value of the first launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .aggregates import ElementType
from .protocols import ViewOperand
from .scope import ArgumentVariable, CompoundVariable


@dataclass(eq=False)
class LaunchValue:
    """A `LaunchValue` is a number, vector, matrix or struct in an argument object, passed anew by each launch.

    Attributes:
        kind: type of the value.
        place: arguments of the kernel that carry the value; set when the kernel is traced.
    """

    kind: ElementType
    place: ArgumentVariable | CompoundVariable | None = None


class MembersStandIn:
    """A `MembersStandIn` takes the place of an argument object while its kernel is traced, and holds its members.

    Each member is known at compile time, a `LaunchValue`, or an array of the launch.

    Attributes:
        kind: class of the object, which supplies methods, properties and constants.
        values: members by name.
    """

    __slots__ = ("kind", "values")

    def __init__(self, kind: type, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "values", dict(values))

    def __getattr__(self, name: str) -> Any:
        """Return a member for code that runs at compile time. Raise AttributeError if only a launch knows it.

        Raises:
            AttributeError: only the launch knows the member.
        """
        found = self.find(name)
        if isinstance(found, LaunchValue):
            raise AttributeError(f"`{name}` is known at launch only")
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("the object belongs to the host: a kernel stores to its arrays alone")

    def find(self, name: str) -> Any:
        """Return the member of this name or, if there is none, the attribute or bound method of the object's class.

        Raises:
            AttributeError: there is no such member.
        """
        if name in self.values:
            return self.values[name]
        found = inspect.getattr_static(self.kind, name)
        return found.__get__(self, self.kind) if hasattr(type(found), "__get__") else found

    def launch_values(self, prefix: str) -> Iterator[tuple[str, LaunchValue]]:
        """Yield (prefix of the argument names, value) for each `LaunchValue` in this object and in nested objects."""
        for name, value in self.values.items():
            yield from launch_values(value, f"{prefix}.{name}")

    def __dir__(self) -> list[str]:
        return [*self.values, *dir(self.kind)]


def launch_values(value: Any, prefix: str) -> Iterator[tuple[str, LaunchValue]]:
    """Yield (prefix of the argument names, value) for each `LaunchValue` in a stand-in or container, in order."""
    if isinstance(value, LaunchValue):
        yield prefix, value
    elif isinstance(value, MembersStandIn):
        yield from value.launch_values(prefix)
    elif isinstance(value, ViewOperand):
        yield from launch_values({"offset": value.first, "size": value.extent}, prefix)
    elif isinstance(value, (tuple, dict)):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from launch_values(item, f"{prefix}.{name}")


def is_container(value: Any) -> bool:
    """Return True if an object is of a `data_oriented` class, or is the stand-in of an argument with members."""
    return isinstance(value, MembersStandIn) or getattr(type(value), "is_stackgrad_data_oriented", False) is True
