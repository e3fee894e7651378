"""This module tries on objects of its own whether words of memory notice each change of an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

Words = tuple[tuple[int, int], ...]
Find = Callable[[Any, str, Any], Words | None]
_MANY = 40
"""Number of attributes of objects whose tables have grown."""


class _Trial(NotImplementedError):
    """Signal that words were not found, or notice too much or too little."""


def is_confirmed(
    present: Find, absent: Callable[[Any, str], Words | None], are_unchanged: Callable[[Words], bool]
) -> bool:
    """Return True if words exist for all objects of the trial, stay while nothing changes, and notice each change.

    Args:
        present: The function that finds the words of an attribute.
        absent: The function that finds the words that say that an object has no attribute of this name.
        are_unchanged: The function that compares words.
    """
    try:
        for owner, name, change in _changes():
            words = present(owner, name, getattr(owner, name))
            if words is None or not are_unchanged(words):
                raise _Trial
            change()
            if are_unchanged(words):
                raise _Trial
        for owner, change in _additions():
            words = absent(owner, "added")
            if words is None or not are_unchanged(words):
                raise _Trial
            change()
            if are_unchanged(words):
                raise _Trial
    except (_Trial, KeyError, ValueError):
        return False
    return True


def _made(count: int = 2) -> Any:
    """Return an object of a class of its own, with attributes `name0`, `name1` and so on."""

    class Made:
        constant = 1.5

        def __init__(self) -> None:
            for k in range(count):
                setattr(self, f"name{k}", k + 0.5)

    return Made()


def _without_dictionary_sharing() -> Any:
    made = _made(_MANY)
    del made.name3
    made.name3 = 3.25
    return made


def _module() -> ModuleType:
    made = ModuleType("made")
    made.__dict__["name1"] = 1.5
    return made


def _changes() -> Iterator[tuple[Any, str, Callable[[], object]]]:
    """Yield objects, each with the name of an attribute, and a function that makes the attribute mean another thing."""
    for make in (_made, lambda: _made(_MANY), _without_dictionary_sharing, _module):
        one = make()
        yield one, "name1", partial(setattr, one, "name1", 2.5)
        one = make()
        yield one, "name1", partial(delattr, one, "name1")
    one = _made()
    yield one, "name1", partial(setattr, one, "__dict__", {"name1": 2.5})
    two = _made()
    yield two, "name1", lambda: setattr(type(two), "name1", property(lambda self: 2.5))
    three = _made()
    yield three, "name1", lambda: setattr(three, "__class__", type("Other", (type(three),), {}))
    four = _made()
    yield four, "constant", lambda: setattr(type(four), "constant", 2.5)
    five = _made()
    yield five, "constant", lambda: setattr(five, "constant", 2.5)
    kind = type(_made())
    yield kind, "constant", lambda: setattr(kind, "constant", 2.5)
    below = type("Below", (type(_made()),), {})
    yield below, "constant", lambda: setattr(below.__base__, "constant", 2.5)
    for name, value in (
        ("__defaults__", (2.5,)),
        ("__kwdefaults__", {"second": 2.5}),
        ("__code__", (lambda first: first).__code__),
    ):
        function = _function()
        yield function, name, partial(setattr, function, name, value)


def _function() -> Any:
    return lambda first: 1.5 * first


def _additions() -> Iterator[tuple[Any, Callable[[], object]]]:
    """Yield objects without an attribute `added`, each with a function that adds it, or changes the class."""
    for make in (_made, lambda: _made(_MANY), _without_dictionary_sharing, _module):
        one = make()
        yield one, partial(setattr, one, "added", 0.5)
    # Another object of the class has the attribute, so that the shared table knows its name.
    two = _made()
    other = type(two)()
    other.added = 0.5
    yield two, lambda: setattr(two, "added", 0.5)
    three = _made()
    yield three, lambda: setattr(type(three), "added", 0.5)
