"""This module lists the parts of Python objects, such as attributes, by which two objects are compared.

A property, or a function that runs at each launch, may make a new object each time. Such objects are not identical, but
a kernel cannot distinguish two of them if all of their parts are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from operator import attrgetter
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .functions import BoundFunc, Func
from .protocols import is_any_field
from .source import MISSING, annotation_of, cell_content

Take = Callable[[Any], Any]
"""A function that returns the parts of an object: a tuple, or a dictionary by name."""

_own_names: Take = attrgetter("__dict__")
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_LASTING = (type, ModuleType)
"""Objects of these classes are compared by identity, because programs do not make them anew for each launch."""


def take_of(found: Any) -> Take | None:
    """Return the function that lists the parts of an object, or None if the object is compared by identity."""
    if isinstance(found, FunctionType):
        return function_parts
    if isinstance(found, (MethodType, BuiltinMethodType, BoundFunc)):
        return method_parts
    if isinstance(found, Func):
        return _wrapped
    if isinstance(found, partial):
        return _partial_parts
    if isinstance(found, (deque, *_VIEWS)):
        return tuple
    if is_any_field(found) or isinstance(found, _LASTING):
        return None
    if _slots(type(found)):
        return attributes
    return _own_names if hasattr(found, "__dict__") else None


def function_parts(found: FunctionType) -> tuple[Any, ...]:
    """Return the parts by which a function is compared besides its code: defaults, annotations and closure.

    For a function that belongs to no module, such as a lambda in `static`, the objects that its global names denote are
    compared too.
    """
    names = {} if module_names(found) is not None else _used_names(found)
    return found.__defaults__, found.__kwdefaults__, _annotations(found), closure_parts(found), names


def _annotations(found: FunctionType) -> dict[str, Any]:
    """Return the annotations of a function; those that are text are replaced by what their names denote now."""
    given = found.__annotations__
    if not any(isinstance(one, str) for one in given.values()):
        return given
    return {name: annotation_of(found, name) for name in given}


def closure_parts(found: FunctionType) -> tuple[Any, ...]:
    """Return the contents of the closure of a function."""
    return tuple([cell_content(cell) for cell in found.__closure__ or ()])


def has_closure_alone(found: FunctionType) -> bool:
    """Return True if a function of a module has no defaults and annotations, so that only its closure is compared."""
    return not (found.__defaults__ or found.__kwdefaults__ or found.__annotations__ or module_names(found) is None)


def module_names(function: FunctionType) -> dict[str, Any] | None:
    """Return the global names of a function, or None if it belongs to no module, such as a lambda in `static`."""
    return function.__globals__ if "__name__" in function.__globals__ else None


def _used_names(function: FunctionType) -> dict[str, Any]:
    """Return the objects that the global names in a function, or in functions nested in it, denote."""
    codes = [function.__code__]
    used: dict[str, Any] = {}
    while codes:
        code = codes.pop()
        used |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        codes += (one for one in code.co_consts if isinstance(one, CodeType))
    return used


def method_parts(method: Any) -> tuple[Any, Any]:
    """Return the function (by name if it is a built-in one) and the object to which a bound method is bound."""
    if isinstance(method, BoundFunc):
        return method.func, method.receiver
    return (method.__name__ if isinstance(method, BuiltinMethodType) else method.__func__), method.__self__


def _wrapped(func: Func) -> tuple[Any, ...]:
    return (func.function,)


def _partial_parts(found: partial[Any]) -> tuple[Any, ...]:
    return found.func, found.args, found.keywords


def attributes(found: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, those in `__slots__` included."""
    held = {name: getattr(found, name) for name in _slots(type(found)) if hasattr(found, name)}
    return held | dict(getattr(found, "__dict__", ()))


def _slots(kind: type) -> list[str]:
    """Return the names in `__slots__` of a class and its bases; private names are mangled as Python does it."""
    return [
        _mangled(name, base)
        for base in kind.__mro__
        for name in _names(vars(base).get("__slots__", ()))
        if name not in ("__dict__", "__weakref__")
    ]


def _mangled(name: str, kind: type) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if is_private else name


def _names(slots: str | Iterable[str]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


_PARTS_OF_FUNCTIONS = ("definition", "__code__", "__defaults__", "__kwdefaults__", "__annotations__", "__closure__")


def part_names(found: Any) -> Collection[str]:
    """Return the names of the attributes by which an object is compared with another object."""
    if isinstance(found, FunctionType):
        return _PARTS_OF_FUNCTIONS
    if isinstance(found, MethodType):
        return "__func__", "__self__"
    if isinstance(found, partial):
        return "func", "args", "keywords"
    if isinstance(found, Func):
        return ("function",)
    return attributes(found)


def class_attribute(kind: type, name: str) -> Any:
    """Return the attribute of a class or its bases, without a call of `__get__`; MISSING if none has the name."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def is_of_class(owner: Any, name: str) -> bool:
    """Return True if the class of an object alone decides the value of the attribute `name`, as with a method."""
    found = class_attribute(type(owner), name)
    if found is MISSING or name in attributes(owner):
        return False
    return isinstance(found, (FunctionType, Func, staticmethod, classmethod)) or not hasattr(type(found), "__get__")
