"""This module lowers methods of structs, and properties made of funcs; both are inlined with the struct as `self`."""

from __future__ import annotations

import ast
import inspect
from functools import partial
from typing import Any

from .aggregates import StructType
from .context import Tracer
from .diagnostics import suggestion, syntax_problem
from .functions import Func
from .inline import inline
from .members import MembersStandIn
from .memory import Place
from .operands import Intrinsic, Operand, Static


def method(t: Tracer, base: Place | Operand, kind: StructType, name: str) -> Static:
    """Return a method of a struct type, bound to the struct.

    Raises:
        ProblemError: the type has neither a member nor a method of this name.
    """
    if name == "keys":
        return Static(Intrinsic(name, lambda t, node: Static(kind.names)), name)
    function = kind.methods.get(name)
    if function is None:
        close = suggestion(name, [*kind.names, *kind.methods])
        raise syntax_problem(f"{kind} has no member `{name}`", close or f"its members are {', '.join(kind.names)}")
    made = function if isinstance(function, Func) else Func(function)
    return Static(Intrinsic(name, partial(_call, made, base)), name)


def _call(function: Func, receiver: Place | Operand, t: Tracer, node: ast.Call) -> Operand:
    return inline(t, function, node, receiver)


def property_of(owner: Any, name: str) -> Func | None:
    """Return the func that computes a property of a class, if the property is made of a `@sg.func`, else None."""
    kind = owner.kind if isinstance(owner, MembersStandIn) else type(owner)
    found = inspect.getattr_static(kind, name, None)
    return found.fget if isinstance(found, property) and isinstance(found.fget, Func) else None
