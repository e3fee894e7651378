"""Evaluation at compile time: what stands inside `sg.static(...)` is Python, run on the objects that names mean.

Invariant: nothing that may change between two launches is read; an element of a field is refused.
"""
from __future__ import annotations

import ast
import re
from typing import Any

from .context import Tracer
from .diagnostics import Poisoned, mistyped
from .expressions import outer
from .functions import Function
from .operands import UNKNOWN, Poison, Static, known, static
from .protocols import is_field
from .scope import Fixed


def static_call(t: Tracer, node: ast.expr, name: str = "static") -> ast.Call | None:
    """The node as a call of `sg.static`, or None."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr != name:
        return None
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or t.scopes.find(root.id) is not None or root.id in t.active.locals:
        return None
    target = t.expr(node.func)
    found = isinstance(target, Static) and isinstance(target.value, Function) and target.value.name == name
    return node if found else None


def evaluate_static(t: Tracer, node: ast.Call) -> Static:
    """The value of a `sg.static(...)` call; several arguments give a tuple."""
    if node.keywords or not node.args:
        raise mistyped("`static` takes one or more values", "write `sg.static(value)`")
    values = [python_value(t, arg) for arg in node.args]
    if len(values) > 1:
        return static(tuple(values), hint_of(node.args[0]))
    return static(values[0], hint_of(node.args[0]))


def hint_of(node: ast.expr) -> str:
    """A name for what an expression gives."""
    return re.sub(r"\W+", "_", ast.unparse(node)).strip("_")[:40]


def python_value(t: Tracer, node: ast.expr) -> Any:
    """Run an expression as Python. Raises KernelTypeError if it depends on what is known at launch only."""
    made = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    made |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    namespace: dict[str, Any] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in made and inner.id not in namespace:
            namespace[inner.id] = _object(t, inner)
    _refuse_elements(node, namespace)
    expression = ast.fix_missing_locations(ast.Expression(node))
    try:
        return eval(compile(expression, t.active.source.file, "eval"), namespace)
    except Exception as error:
        raise mistyped(f"the static expression fails: {type(error).__name__}: {error}", "correct it", node) from error


def _object(t: Tracer, name: ast.Name) -> Any:
    binding = t.scopes.find(name.id)
    if binding is None:
        return outer(t, name.id)
    if isinstance(binding, Fixed):
        if isinstance(binding.operand, Poison):
            raise Poisoned
        found = known(binding.operand)
        if found is not UNKNOWN:
            return found
    raise mistyped(f"`{name.id}` is not known at compile time", "use constants and `sg.static(range(...))` loops", name)


def _refuse_elements(node: ast.expr, namespace: dict[str, Any]) -> None:
    for inner in ast.walk(node):
        base = inner.value if isinstance(inner, ast.Subscript) else None
        if isinstance(base, ast.Name) and is_field(namespace.get(base.id)):
            raise mistyped("an element of a field is not known at compile time", "read it outside `static`", inner)
