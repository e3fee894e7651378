"""This module defines a cached property that holds no lock, which a forked child process might inherit locked.

functools.cached_property of Python 3.11 holds one lock for all objects of a class while it computes. A process that is
forked meanwhile inherits a lock that nobody will release, and waits for it forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - it stands in for a name of functools
    """This descriptor computes a property once for each object and stores the result in the object's `__dict__`.

    Two threads may compute it at the same time; both see a value that one of them computed. Assigning to the attribute
    or deleting it works as for any attribute.

    Attributes:
        compute: Computes the value of an object.
        name: Name of the attribute.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Record the name under which the class has the property."""
        self.name = name

    @overload
    def __get__(self, holder: None, owner: type | None = None) -> cached_property[T]: ...
    @overload
    def __get__(self, holder: object, owner: type | None = None) -> T: ...
    def __get__(self, holder: object | None, owner: type | None = None) -> T | cached_property[T]:
        """Compute the property of an object, store it in the object's `__dict__`, and return it."""
        if holder is None:
            return self
        value: T = holder.__dict__.setdefault(self.name, self.compute(holder))
        return value
