"""This module evaluates `sg.static(...)`: its argument is run as Python code at compile time.

Invariant: nothing that may change between two launches is read; an element of a field is refused.
"""

from __future__ import annotations

import ast
import copy
import re
from types import CodeType
from typing import Any

from .context import Tracer, require_value
from .diagnostics import PoisonError, type_problem
from .functions import LanguageFunction
from .operands import UNKNOWN, MatrixValue, Poison, Static, known_object, static_operand
from .outer_names import outer_object
from .protocols import is_any_field
from .reads import EvaluationRead, InputFinder, is_plain, materialize
from .scope import FixedName
from .snapshots import snapshot


def static_call(t: Tracer, node: ast.expr, name: str = "static", function: str = "static") -> ast.Call | None:
    """Return the node as a call of the function, by default `sg.static`, or None if it is no such call.

    Args:
        t: the tracer.
        node: the expression.
        name: name of the function if it is written as an attribute.
        function: name of the function of the language.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr != name:
        return None
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or t.scopes.find(root.id) is not None:
        return None
    target = t.expr(node.func)
    found = isinstance(target, Static) and isinstance(target.value, LanguageFunction) and target.value.name == function
    return node if found else None


def evaluate_static(t: Tracer, node: ast.Call) -> Static:
    """Return the value of a `sg.static(...)` call; several arguments give a tuple."""
    if node.keywords or not node.args:
        raise type_problem("`static` takes one or more values", "write `sg.static(value)`")
    values = [python_value(t, arg) for arg in node.args]
    if len(values) > 1:
        return static_operand(tuple(values), hint_of(node.args[0]))
    return static_operand(values[0], hint_of(node.args[0]))


def hint_of(node: ast.expr) -> str:
    """Return an identifier for the result of an expression: its source text with `_` for other characters."""
    return re.sub(r"\W+", "_", ast.unparse(node)).strip("_")[:40]


def python_value(t: Tracer, node: ast.expr) -> Any:
    """Return the result of an expression that is evaluated by Python at compile time.

    Raises:
        Problem: the expression fails, or depends on something that only the launch knows.
    """
    namespace: dict[str, Any] = {}
    names: list[str] = []
    node = _KnownReplacer(t, namespace).visit(copy.deepcopy(node))
    made = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    # Names that the expression itself binds (comprehensions, lambdas) have no object outside.
    made |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in made and inner.id not in namespace:
            namespace[inner.id] = _object(t, inner)
            if t.scopes.find(inner.id) is None:
                names.append(inner.id)
    _refuse_elements(node, namespace)
    inputs = InputFinder(node, namespace).reads
    expression = ast.fix_missing_locations(ast.Expression(node))
    code = compile(expression, t.active.source.file, "eval")
    found = _evaluated(code, namespace, node)
    if inputs is None:
        _check_again(found, _evaluated(code, namespace, node), node)
        bound = {name: value for name, value in namespace.items() if name not in names}
        inputs = [EvaluationRead(t.active.function, code, tuple(names), bound, found)]
    t.reads += inputs
    return found


def _evaluated(code: CodeType, namespace: dict[str, Any], node: ast.expr) -> Any:
    try:
        return materialize(eval(code, dict(namespace)))
    except Exception as error:
        raise type_problem(
            f"the static expression fails: {type(error).__name__}: {error}", "correct it", node
        ) from error


def _check_again(found: Any, again: Any, node: ast.expr) -> None:
    """Raise a problem if evaluating a static expression again gave another result.

    Otherwise a launch and its gradient could be launches of different kernels.
    """
    if is_plain(found) and not snapshot(found).holds(again):
        raise type_problem(
            "the static expression gives something else each time it is evaluated",
            "evaluate it once, outside of the kernel, and use the result",
            node,
        )


class _KnownReplacer(ast.NodeTransformer):
    """This transformer replaces expressions about run-time values that are known early, such as `len(v)`."""

    def __init__(self, t: Tracer, namespace: dict[str, Any]) -> None:
        self._t = t
        self._namespace = namespace

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace an attribute of a run-time value, such as its shape or type, by a name for the known object."""
        if node.attr in _KNOWN_ATTRIBUTES and self._at_launch(node.value):
            return self._evaluated(node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace the `len` of a run-time value, which is known at compile time, by a constant name."""
        is_length = isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1
        if is_length and self._at_launch(node.args[0]):
            return self._evaluated(node)
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Replace a comparison of a run-time value with None by its result, True or False."""
        right = node.comparators[0]
        none = isinstance(right, ast.Constant) and right.value is None
        if none and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and self._at_launch(node.left):
            return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.IsNot)), node)
        self.generic_visit(node)
        return node

    def _at_launch(self, node: ast.expr) -> bool:
        """Return True if the expression is a vector or a value known at launch only, or a part of one."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        binding = self._t.scopes.find(node.id)
        if not isinstance(binding, FixedName):
            return binding is not None
        return isinstance(binding.operand, MatrixValue) or known_object(binding.operand) is UNKNOWN

    def _evaluated(self, node: ast.expr) -> ast.expr:
        # The block is dropped: only what is known of the result is used.
        with self._t.block():
            found = known_object(require_value(self._t.expr(node)))
        if found is UNKNOWN:
            return node
        name = f"known {len(self._namespace)}"
        self._namespace[name] = found
        return ast.copy_location(ast.Name(name, ast.Load()), node)


_KNOWN_ATTRIBUTES = frozenset(("n", "m", "shape", "dtype", "ndim"))


def _object(t: Tracer, name: ast.Name) -> Any:
    binding = t.scopes.find(name.id)
    if binding is None:
        return outer_object(t, name)
    if isinstance(binding, FixedName):
        if isinstance(binding.operand, Poison):
            raise PoisonError
        found = known_object(binding.operand)
        if found is not UNKNOWN:
            return found
    raise type_problem(
        f"`{name.id}` is not known at compile time", "use constants and `sg.static(range(...))` loops", name
    )


def _named(node: ast.expr, namespace: dict[str, Any]) -> Any:
    """Return the object that a name or a dotted name denotes, or None for any other expression."""
    if isinstance(node, ast.Attribute):
        return getattr(_named(node.value, namespace), node.attr, None)
    return namespace.get(node.id) if isinstance(node, ast.Name) else None


def _refuse_elements(node: ast.expr, namespace: dict[str, Any]) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript) and is_any_field(_named(inner.value, namespace)):
            raise type_problem("an element of a field is not known at compile time", "read it outside `static`", inner)
