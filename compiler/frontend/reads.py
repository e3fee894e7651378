"""What a trace reads of Python objects, so that whoever holds the kernel can notice when one of them changes.

Three kinds: a name outside the function, a part of an object, and a static expression that calls what nobody can look
into, which is evaluated again. Invariant: what a static expression gives depends on what is recorded here, on constants
of its text, and on nothing else; where that cannot be seen from the text, the expression as a whole is recorded.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..ir.types import Scalar
from .functions import Function, NDRange
from .limits import ITEMS
from .members import Members
from .protocols import LaunchShape, is_any_field, is_host_matrix, is_host_struct, is_host_view

NUMBERS = (int, float, bool, str, type(None), Scalar, complex, bytes, range, slice, np.generic, np.dtype)
"""What cannot change: another one is another object."""

_PACKAGE = __name__.partition(".")[0]
_SETTLED = frozenset((_PACKAGE, "numpy", "math", "builtins", "operator", "itertools", "functools"))
"""Packages whose modules, classes and functions programs do not change."""


@dataclass(frozen=True, eq=False)
class NameRead:
    """What a name outside of a function meant."""

    function: FunctionType
    name: str
    found: Any


@dataclass(frozen=True, eq=False)
class PartRead:
    """What an object gave when it was looked at in this way: an attribute, an item, its length."""

    owner: Any
    name: object
    look: Callable[[Any], Any]
    found: Any


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What an expression gave. bound: its names that mean something in the kernel. outer: those outside of function."""

    function: FunctionType
    code: CodeType
    outer: tuple[str, ...]
    bound: Mapping[str, Any]
    found: Any


Read = NameRead | PartRead | Evaluation


def attribute_read(owner: Any, name: str, found: Any) -> list[Read]:
    """The record of an attribute: none if it is part of what is compared as a whole, or cannot change."""
    if isinstance(owner, Members) and name not in owner.values:
        owner = owner.kind  # a constant, method or property of the class
        found = getattr(owner, name, None)
    return [] if is_settled(owner) else [PartRead(owner, name, attrgetter(name), found)]


def item_read(owner: Any, key: Any, found: Any) -> list[Read]:
    """The record of an item of an object that is no plain sequence, table or array."""
    if is_settled(owner):
        return []
    return [PartRead(owner, ("[]", repr(key)), lambda now: now[key], found)]


def length_read(owner: Any, found: int) -> list[Read]:
    """The record of the length of an object."""
    return [] if is_settled(owner) else [PartRead(owner, "len()", len, found)]


def default_reads(function: FunctionType) -> list[Read]:
    """The records of what parameters stand for that a call leaves out."""
    names = ("__defaults__", "__kwdefaults__")
    return [PartRead(function, name, attrgetter(name), getattr(function, name)) for name in names]


def is_settled(owner: Any) -> bool:
    """Whether parts of an object change only with what stands for the whole of it, if ever."""
    if isinstance(owner, ModuleType):
        return owner.__name__.partition(".")[0] in _SETTLED
    if isinstance(owner, (type, FunctionType)):
        return owner.__module__.partition(".")[0] in _SETTLED
    plain = isinstance(owner, (*NUMBERS, np.ndarray, tuple, Members, NDRange)) or type(owner) in (list, dict)
    of_host = is_host_matrix(owner) or is_host_struct(owner) or is_host_view(owner) or is_any_field(owner)
    return plain or of_host or type(owner).__module__.startswith(f"{_PACKAGE}.compiler.")


def is_plain(found: Any, depth: int = 8) -> bool:
    """Whether an object is a number, a text, or made of nothing else: what it gives is seen from what it contains."""
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
"""Functions that hand objects on, or count them, and do not look into them."""

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
"""Classes whose methods give what follows from the object and the arguments."""

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
    """The expression does what cannot be seen from its text."""


class Inputs:
    """What an expression depends on, if that can be seen from its text; else `reads` is None.

    namespace: what its names mean.
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
        """inert: what stands around does not look into an object."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            if not (isinstance(node, ast.Name) and node.id not in self._namespace):
                self._leaf(self._chain(node), inert)
        elif isinstance(node, ast.Subscript):
            self._visit(node.value, inert)
            self._visit(node.slice, False)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, _TRANSPARENT):
            hands_on = isinstance(node, (ast.Tuple, ast.List, ast.IfExp)) and inert
            hands_on |= isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
            for inner in ast.iter_child_nodes(node):
                self._visit(inner, hands_on)
        else:
            raise _Opaque

    def _chain(self, node: ast.expr) -> Any:
        """The object that `a.b.c` means, each part of it recorded."""
        if isinstance(node, ast.Name) and node.id in self._namespace:
            return self._namespace[node.id]
        if not isinstance(node, ast.Attribute):
            raise _Opaque
        owner = self._chain(node.value)
        try:
            found = getattr(owner, node.attr)
        except Exception:
            raise _Opaque from None
        self._found += attribute_read(owner, node.attr, found)
        return found

    def _leaf(self, found: Any, inert: bool) -> None:
        if not is_plain(found) and not (inert and _is_object(found)):
            raise _Opaque

    def _call(self, node: ast.Call) -> None:
        function = node.func
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(function, ast.Attribute) and self._is_method(function):
            self._visit(function.value, False)
            holding = False
        else:
            called = self._chain(function)
            if not _is_pure(called):
                raise _Opaque
            holding = called in _HOLDING
        for argument in arguments:
            self._visit(argument, holding)

    def _is_method(self, function: ast.Attribute) -> bool:
        """Whether it is a method of a plain container, a text or an array."""
        node = function.value
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            return True
        try:
            return type(_quiet(node, self._namespace)) in _PARTS
        except _Opaque:
            return False


def _quiet(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """The object that `a.b.c` means, unrecorded."""
    if isinstance(node, ast.Name) and node.id in namespace:
        return namespace[node.id]
    if not isinstance(node, ast.Attribute):
        raise _Opaque
    try:
        return getattr(_quiet(node.value, namespace), node.attr)
    except Exception:
        raise _Opaque from None


def _is_object(found: Any) -> bool:
    """Whether an object may be handed on: what is read of it later is recorded then. Containers must be known kinds."""
    return not hasattr(type(found), "__iter__") or type(found) in (list, tuple, dict)


def _is_pure(called: Any) -> bool:
    """Whether a function gives what follows from its arguments, and does nothing else."""
    if isinstance(called, Function):
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


def listed(found: Any) -> Any:
    """What an expression gave; of an iterator, which gives its items once, the items."""
    return tuple(islice(found, ITEMS + 1)) if isinstance(found, Iterator) else found


def is_builtin(name: str, function: FunctionType) -> bool:
    """Whether a name of a function is one of Python's own."""
    code = function.__code__
    return name not in code.co_freevars and name not in function.__globals__ and hasattr(builtins, name)
