"""This module gives instances of a class docstrings of their own, beside the docstring of the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


class InstanceText:
    """An `InstanceText` is the attribute `__doc__` of a class whose instances describe themselves.

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
    """Return a class decorator that gives the instances of the class docstrings.

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
