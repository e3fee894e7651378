"""This module gives each instance of a class its own docstring, in addition to that of the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


class InstanceText:
    """An `InstanceText` is a descriptor for `__doc__` that gives each instance of a class its own docstring.

    Attributes:
        of_class: docstring of the class.
        describe: function from an instance to its docstring.
    """

    __slots__ = ("of_class", "describe")

    def __init__(self, of_class: str | None, describe: Callable[[Any], str]) -> None:
        self.of_class = of_class
        self.describe = describe

    def __get__(self, instance: Any, owner: type | None = None) -> str | None:
        return self.of_class if instance is None else self.describe(instance)


def documented(given: Callable[[Any], str] | str) -> Callable[[C], C]:
    """Return a class decorator that gives each instance of the class a docstring.

    Args:
        given: the docstring of all instances, or a function from an instance to its docstring. The function is called
            when someone asks for the text, so instances cost nothing more.
    """
    describe = given if callable(given) else lambda instance: given

    def decorate(kind: C) -> C:
        text: Any = InstanceText(kind.__doc__, describe)
        kind.__doc__ = text
        return kind

    return decorate
