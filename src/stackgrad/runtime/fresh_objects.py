"""Find the objects that take the place of fresh objects at a later launch, such as new results of a property.

The object that a trace has read no longer exists at the next launch. A guard on it uses the object in its place.
Invariant: this module keeps no objects of the program alive, except numbers, texts, NumPy arrays, and objects of
classes that Python cannot copy by their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CellType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np

from ..compiler.frontend.functions import Func
from ..compiler.frontend.parts import attributes, function_parts, module_names
from ..compiler.frontend.reads import NUMBERS
from ..compiler.frontend.snapshots import reference_to
from ..compiler.frontend.source import MISSING

Reach = Callable[[], Any]
"""A function that returns an object, or None if it has died."""

NOWHERE: Mapping[int, tuple[Any, Reach]] = MappingProxyType({})

_PACKAGE = f"{__name__.partition('.')[0]}.compiler."


class FreshObjects:
    """Hold the fresh objects of one trace, and functions that find the objects in their place at later launches.

    Args:
        places: Objects by id, each with a function that returns the object in its place.
    """

    def __init__(self, places: Mapping[int, tuple[Any, Reach]] = NOWHERE) -> None:
        self._places = dict(places)
        self._objects: dict[int, Any] = {}

    def __contains__(self, thing: object) -> bool:
        return id(thing) in self._places or id(thing) in self._objects

    def is_copied(self, thing: object) -> bool:
        """Return True if guards use a copy of an object, because no object takes its place at later launches."""
        return id(thing) in self._objects

    @property
    def has_copies(self) -> bool:
        """Return True if guards use copies of any objects."""
        return bool(self._objects)

    def add(self, objects: Mapping[int, Any]) -> None:
        """Record that objects, given by id, are fresh: the program creates them anew for each launch."""
        self._objects.update(objects)

    def reach(self, thing: Any) -> Reach | None:
        """Return a function that finds the later object in place of a fresh one, or None if `thing` is not fresh."""
        if id(thing) not in self._places:
            if id(thing) not in self._objects:
                return None
            self._places[id(thing)] = thing, lambda: thing  # An object that contains itself contains this one.
            self._places[id(thing)] = thing, self._copier(thing)
        return self._places[id(thing)][1]

    def held(self, value: Any) -> Reach:
        """Return a function that returns a value without keeping it alive, and None once the value has died."""
        reach = self.reach(value)
        if reach is not None:
            return reach
        if isinstance(value, (*NUMBERS, np.ndarray)) or type(value).__module__.startswith(_PACKAGE):
            return lambda: value
        if type(value) in (list, tuple):
            parts = [self.held(part) for part in value]
            return lambda: type(value)(part() for part in parts)
        if type(value) is dict:
            named = {key: self.held(part) for key, part in value.items()}
            return lambda: {key: part() for key, part in named.items()}
        return reference_to(value)

    def _copier(self, thing: Any) -> Reach:
        """Return a function that creates an object equal to a fresh object of the trace."""
        if isinstance(thing, FunctionType):
            return self._function_copier(thing)
        if isinstance(thing, MethodType):
            function, owner = self.held(thing.__func__), self.held(thing.__self__)
            return lambda: MethodType(function(), owner())
        if isinstance(thing, Func):
            inner = self.held(thing.function)
            return lambda: Func(inner())
        kind = type(thing)
        try:
            object.__new__(kind)
        except TypeError:  # A class that is not made of Python's own attributes alone.
            return lambda: thing
        parts = {name: self.held(part) for name, part in attributes(thing).items()}

        def copied() -> Any:
            made = object.__new__(kind)
            for name, part in parts.items():
                object.__setattr__(made, name, part())
            return made

        return copied

    def _function_copier(self, function: FunctionType) -> Reach:
        code, module, name = function.__code__, module_names(function), function.__name__
        held = self.held(function_parts(function))

        def copied() -> FunctionType:
            defaults, keywords, annotations, contents, names = held()
            cells = tuple(CellType() if one is MISSING else CellType(one) for one in contents)
            made = FunctionType(code, names if module is None else module, name, defaults, cells)
            made.__kwdefaults__, made.__annotations__ = keywords, annotations
            return made

        return copied
