"""Structs: methods of their types, inlined with the struct as `self`."""
from __future__ import annotations

import ast
from functools import partial

from .aggregates import StructType
from .context import Tracer
from .diagnostics import suggestion, syntax
from .functions import Func
from .inline import inline
from .memory import Place
from .operands import Intrinsic, Operand, Static


def method(t: Tracer, base: Place | Operand, kind: StructType, name: str) -> Static:
    """A method bound to a struct. Raises KernelSyntaxError if the type has neither member nor method of this name."""
    if name == "keys":
        return Static(Intrinsic(name, lambda t, node: Static(kind.names)), name)
    function = kind.methods.get(name)
    if function is None:
        close = suggestion(name, [*kind.names, *kind.methods])
        raise syntax(f"{kind} has no member `{name}`", close or f"its members are {', '.join(kind.names)}")
    made = function if isinstance(function, Func) else Func(function)
    return Static(Intrinsic(name, partial(_call, made, base)), name)


def _call(function: Func, receiver: Place | Operand, t: Tracer, node: ast.Call) -> Operand:
    return inline(t, function, node, receiver)
