"""Objects whose parts come anew with each launch: what stands for them while a kernel is traced.

Invariant: code that runs at compile time sees of such an object what is the same for all launches of one
specialisation; asking for more is an error, never a value of the first launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .aggregates import ElementType
from .protocols import View
from .scope import Argument, Compound


@dataclass(eq=False)
class LaunchValue:
    """A number, vector, matrix or struct that each launch gives anew. place: its arguments, set when it is traced."""

    kind: ElementType
    place: Argument | Compound | None = None


class Members:
    """A Python object by its members; each is known at compile time, a `LaunchValue`, or an array of the launch.

    kind: the object's class, for its methods, properties and constants.
    """

    __slots__ = ("kind", "values")

    def __init__(self, kind: type, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "values", dict(values))

    def __getattr__(self, name: str) -> Any:
        """What compile-time code sees. Raises AttributeError for what is known at launch only."""
        found = self.find(name)
        if isinstance(found, LaunchValue):
            raise AttributeError(f"`{name}` is known at launch only")
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("the object belongs to the host: a kernel stores to its arrays alone")

    def find(self, name: str) -> Any:
        """The member, or what the class gives for it, bound to this object. Raises AttributeError."""
        if name in self.values:
            return self.values[name]
        found = inspect.getattr_static(self.kind, name)
        return found.__get__(self, self.kind) if hasattr(type(found), "__get__") else found

    def launch_values(self, prefix: str) -> Iterator[tuple[str, LaunchValue]]:
        """Every value of a launch in this object and the objects inside, with the name it goes by."""
        for name, value in self.values.items():
            yield from launch_values(value, f"{prefix}.{name}")

    def __dir__(self) -> list[str]:
        return [*self.values, *dir(self.kind)]


def launch_values(value: Any, prefix: str) -> Iterator[tuple[str, LaunchValue]]:
    """The values of a launch in a stand-in, in order."""
    if isinstance(value, LaunchValue):
        yield prefix, value
    elif isinstance(value, Members):
        yield from value.launch_values(prefix)
    elif isinstance(value, View):
        yield from launch_values({"offset": value.first, "size": value.extent}, prefix)
    elif isinstance(value, (tuple, dict)):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from launch_values(item, f"{prefix}.{name}")
