"""This module records every read of a Python object during tracing, so that later changes can be noticed.

There are three kinds of records: a name outside the function; a part of an object; and a static expression that calls
code into which the compiler cannot look, which is evaluated again. Invariant: the result of a static expression depends
only on what is recorded and on constants of its text. If the text does not show that, the whole expression is recorded.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..ir.types import Scalar
from .functions import Func, LanguageFunction, NDRange
from .limits import ITEMS
from .members import MembersStandIn
from .opaque_values import OpaqueValue
from .protocols import LaunchShape, is_any_field, is_host_matrix, is_host_struct, is_host_view
from .source import MISSING

NUMBERS = (int, float, bool, str, type(None), Scalar, complex, bytes, range, slice, np.generic, np.dtype)
"""Objects of these classes cannot change: a different value is a different object."""

_PACKAGE = __name__.partition(".")[0]
_SETTLED = frozenset((_PACKAGE, "numpy", "math", "builtins", "operator", "itertools", "functools"))
"""Programs do not change the modules, classes and functions of these packages."""


@dataclass(frozen=True, eq=False)
class NameRead:
    """A `NameRead` records that tracing looked up a name outside a function, and the object found."""

    function: FunctionType
    name: str
    found: Any


@dataclass(frozen=True, eq=False)
class PartRead:
    """A `PartRead` records that tracing read an attribute, an item or the length of an object, and what was read.

    Attributes:
        owner: the object that was read.
        name: name of the part.
        look: function that reads the part again.
        found: what was read.
    """

    owner: Any
    name: object
    look: Callable[[Any], Any]
    found: Any


@dataclass(frozen=True, eq=False)
class EvaluationRead:
    """An `EvaluationRead` records that tracing evaluated a static expression, and its result.

    Attributes:
        function: function that contains the expression.
        code: the compiled expression.
        outer: its names that are defined outside the function.
        bound: its names that are bound in the kernel, with their objects.
        found: the result of the expression.
    """

    function: FunctionType
    code: CodeType
    outer: tuple[str, ...]
    bound: Mapping[str, Any]
    found: Any


Read = NameRead | PartRead | EvaluationRead


def attribute_read(owner: Any, name: str, found: Any) -> list[Read]:
    """Return a list with the record of an attribute read. The list is empty if no guard on the attribute is needed."""
    if isinstance(owner, MembersStandIn) and name not in owner.values:
        # The name is a constant, method or property of the class.
        owner = owner.kind
        found = getattr(owner, name, None)
    look = partial(_attribute_or_missing, name=name) if found is MISSING else attrgetter(name)
    return [] if is_settled(owner) else [PartRead(owner, name, look, found)]


def _attribute_or_missing(owner: Any, name: str) -> Any:
    return getattr(owner, name, MISSING)


def failed_reads(owner: Any, name: str) -> list[Read]:
    """Return a guard that always fails, for an attribute that could not be read of an object that may change."""
    return [] if is_settled(owner) else [PartRead(owner, name, _fail, MISSING)]


def _fail(owner: Any) -> Any:
    raise LookupError


def item_read(owner: Any, key: Any, found: Any) -> list[Read]:
    """Return a list with the record of an item read, empty if the object is a plain sequence, dictionary or array."""
    if is_settled(owner):
        return []
    return [PartRead(owner, ("[]", repr(key)), lambda now: now[key], found)]


def length_read(owner: Any, found: int) -> list[Read]:
    """Return a list with the record of a read of an object's length."""
    return [] if is_settled(owner) else [PartRead(owner, "len()", len, found)]


_definition = attrgetter("__code__", "__defaults__", "__kwdefaults__")


def definition_reads(function: FunctionType) -> list[Read]:
    """Return a record of the code and default values of a function, to notice before a launch if they change."""
    return [PartRead(function, "definition", _definition, _definition(function))]


def is_settled(owner: Any) -> bool:
    """Return True if attributes and items of an object need no guards, because they are fixed or checked otherwise."""
    if isinstance(owner, ModuleType):
        return owner.__name__.partition(".")[0] in _SETTLED
    if isinstance(owner, (type, FunctionType)):
        return (owner.__module__ or "").partition(".")[0] in _SETTLED
    if isinstance(owner, Func):  # A program may give it attributes.
        return False
    plain = isinstance(owner, (*NUMBERS, np.ndarray, tuple, MembersStandIn, NDRange)) or type(owner) in (list, dict)
    of_host = is_host_matrix(owner) or is_host_struct(owner) or is_host_view(owner) or is_any_field(owner)
    return plain or of_host or type(owner).__module__.startswith(f"{_PACKAGE}.compiler.")


def is_plain(found: Any, depth: int = 8) -> bool:
    """Return True if an object is a number, a text, or a container of only such objects, at most `depth` deep."""
    if isinstance(found, np.ndarray):
        return bool(found.dtype != object)
    if isinstance(found, (*NUMBERS, NDRange, LaunchShape)) or is_host_matrix(found) or is_any_field(found):
        return True
    if isinstance(found, (type, ModuleType)):
        return is_settled(found)
    if type(found) is dict:
        return depth > 0 and all(is_plain(k) and is_plain(v, depth - 1) for k, v in found.items())
    return isinstance(found, (list, tuple)) and depth > 0 and all(is_plain(one, depth - 1) for one in found)


# ---- static expressions ---------------------------------------------------------------------------------------------

_HOLDING = (len, enumerate, zip, reversed, range, list, tuple)
"""These functions pass objects on, or count them, but do not look into them."""

_PURE = frozenset(
    (
        *_HOLDING,
        int,
        float,
        bool,
        str,
        abs,
        min,
        max,
        sum,
        round,
        sorted,
        divmod,
        pow,
        any,
        all,
        isinstance,
        set,
        dict,
        *(one for one in vars(math).values() if callable(one)),
        slice,
    )
)
_IMPURE = frozenset(("random", "randn", "static_print", "volatile_load"))
_PARTS = (list, tuple, dict, str, int, float, np.ndarray, range)
"""Methods of objects of these classes give results that depend only on the object and the arguments."""

_TRANSPARENT = (
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Slice,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Starred,
    ast.ListComp,
    ast.GeneratorExp,
    ast.SetComp,
    ast.DictComp,
    ast.comprehension,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


class _Opaque(Exception):
    """This exception means that the objects an expression reads cannot be found from its syntax alone."""


class InputFinder:
    """This class finds the objects that a static expression reads; `reads` is None if syntax alone cannot tell.

    Args:
        node: the expression.
        namespace: for each name in the expression, the object that it denotes.
    """

    def __init__(self, node: ast.expr, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._found: list[Read] = []
        self.reads: list[Read] | None = self._found
        try:
            self._visit(node, True)
        except _Opaque:
            self.reads = None

    def _visit(self, node: ast.AST, inert: bool) -> None:
        """Record the objects that an expression reads; `inert` is True if its result is only passed on."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            if not (isinstance(node, ast.Name) and node.id not in self._namespace):
                self._leaf(node, self._chain(node), inert)
        elif isinstance(node, ast.Subscript):
            self._visit(node.value, inert)
            self._visit(node.slice, False)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, _TRANSPARENT):
            # A container or a choice passes an object on without looking into it, and `is` compares identities only.
            hands_on = isinstance(node, (ast.Tuple, ast.List, ast.IfExp)) and inert
            hands_on |= isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
            for inner in ast.iter_child_nodes(node):
                self._visit(inner, hands_on)
        else:
            raise _Opaque

    def _chain(self, node: ast.expr) -> Any:
        """Return the object that a dotted name like `a.b.c` denotes, and record each attribute read."""
        if isinstance(node, ast.Name) and node.id in self._namespace:
            return self._namespace[node.id]
        if not isinstance(node, ast.Attribute):
            raise _Opaque
        owner = self._settings(node) if isinstance(node.value, ast.Call) else self._chain(node.value)
        try:
            found = getattr(owner, node.attr)
        except Exception:
            raise _Opaque from None
        if not isinstance(node.value, ast.Call):
            self._found += attribute_read(owner, node.attr, found)
        return found

    def _settings(self, node: ast.Attribute) -> Any:
        """Return the object of this package that a call without arguments gives, if the attribute is a setting of it.

        Settings are the same as long as the runtime is, with which all traces end.
        """
        call = node.value
        if not isinstance(call, ast.Call) or call.args or call.keywords:
            raise _Opaque
        called = self._chain(call.func)
        if not isinstance(called, FunctionType) or not is_settled(called) or not _is_pure(called):
            raise _Opaque
        owner = called()
        if node.attr not in getattr(type(owner), "stackgrad_settings", ()):
            raise _Opaque
        return owner

    def _leaf(self, node: ast.expr, found: Any, inert: bool) -> None:
        # An object that a property makes anew must be the one that the evaluation gives, not the one that is read here.
        # What only the launch knows is no object of the program.
        is_handed_on = inert and (
            isinstance(found, OpaqueValue) or _is_object(found) and _quiet(node, self._namespace) is found
        )
        if not is_plain(found) and not is_handed_on:
            raise _Opaque

    def _call(self, node: ast.Call) -> None:
        function = node.func
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(function, ast.Attribute) and self._is_method(function):
            self._visit(function.value, False)
            holding = False
        else:
            called = self._chain(function)
            if is_arithmetic(called) and all(map(self._is_number, arguments)):
                self._found += definition_reads(called)
            elif not _is_pure(called):
                raise _Opaque
            holding = called in _HOLDING
        for argument in arguments:
            self._visit(argument, holding)

    def _is_number(self, node: ast.expr) -> bool:
        """Return True if an argument is a number or text, by itself or by name."""
        try:
            found = node.value if isinstance(node, ast.Constant) else _quiet(node, self._namespace)
        except _Opaque:
            return False
        return isinstance(found, NUMBERS)

    def _is_method(self, function: ast.Attribute) -> bool:
        """Return True if the function is a method of a plain container, a text or an array."""
        node = function.value
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            return True
        try:
            return type(_quiet(node, self._namespace)) in _PARTS
        except _Opaque:
            return False


def _quiet(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """Return the object that a dotted name like `a.b.c` denotes, without records of the reads; else raise _Opaque."""
    if isinstance(node, ast.Name) and node.id in namespace:
        return namespace[node.id]
    if not isinstance(node, ast.Attribute):
        raise _Opaque
    try:
        return getattr(_quiet(node.value, namespace), node.attr)
    except Exception:
        raise _Opaque from None


def _is_object(found: Any) -> bool:
    """Return True if reads of an object's parts are recorded one by one, so that the object needs no record.

    Containers must be of a known kind.
    """
    return not hasattr(type(found), "__iter__") or type(found) in (list, tuple, dict)


def _is_pure(called: Any) -> bool:
    """Return True if the result of a function depends only on its arguments, and the function has no effect."""
    if isinstance(called, LanguageFunction):
        return called.name not in _IMPURE
    try:
        if called in _PURE:
            return True
    except TypeError:
        return False
    module = getattr(called, "__module__", None) or ""
    if module.partition(".")[0] == _PACKAGE:
        return isinstance(called, (type, FunctionType))
    return isinstance(called, np.ufunc) or (module == "numpy" and "random" not in repr(called))


def is_arithmetic(called: Any) -> bool:
    """Return True for a function whose result depends only on its arguments, if these are numbers.

    It uses no name from outside and no attribute, makes no function, and has no default values and no closure.
    """
    if not isinstance(called, FunctionType) or called.__defaults__ or called.__kwdefaults__:
        return False
    code = called.__code__
    # Generators are objects that remember, and functions inside may use names of their own.
    is_plain_code = not code.co_names and not code.co_freevars and not code.co_cellvars and not code.co_flags & _LASTING
    return is_plain_code and not any(isinstance(one, CodeType) for one in code.co_consts)


_LASTING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def materialize(found: Any) -> Any:
    """Return the result of an expression, with an iterator replaced by the tuple of its items."""
    return tuple(islice(found, ITEMS + 1)) if isinstance(found, Iterator) else found


def failure(error: Exception) -> tuple[str, type, str]:
    """Return a tuple that stands for the result of a static expression which raised this exception."""
    return "failed", type(error), str(error)


def is_builtin(name: str, function: FunctionType) -> bool:
    """Return True if a name in a function denotes a Python builtin."""
    code = function.__code__
    return name not in code.co_freevars and name not in function.__globals__ and hasattr(builtins, name)
