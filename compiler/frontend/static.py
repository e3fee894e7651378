"""This module evaluates `sg.static(...)`: its argument is run as Python code at compile time.

Invariant: nothing that may change between two launches is read; an element of a field is refused.
"""

from __future__ import annotations

import ast
import copy
import re
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from .context import Tracer, require_value
from .diagnostics import PoisonError, ProblemError, type_problem
from .functions import LanguageFunction
from .opaque_values import OpaqueValue
from .operands import UNKNOWN, MatrixValue, Operand, Pack, Poison, Static, known_object
from .outer_names import outer_object
from .protocols import is_any_field
from .reads import EvaluationRead, InputFinder, failed_reads, failure, is_plain, materialize
from .scope import FixedName
from .snapshots import snapshot
from .source import outer_name


def static_call(t: Tracer, node: ast.expr, name: str = "static", function: str = "static") -> ast.Call | None:
    """Return an expression as a call if it calls the function `function`, by default `sg.static`, else None.

    Args:
        t: the tracer.
        node: syntax node of the expression.
        name: attribute name under which the program may call the function, as in `sg.static` or `graph.do_while`.
        function: name of the built-in function.
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


def evaluate_static(t: Tracer, node: ast.Call, is_sequence: bool = False) -> Static:
    """Return the value of a `sg.static(...)` call; several arguments give a tuple.

    A part of the value that only the launch knows is an `OpaqueValue`.

    Args:
        t: the tracer.
        node: the call.
        is_sequence: True if only the items of the value are used, so that it may be a vector of the launch.

    Raises:
        ProblemError: the expression fails, or its value is known only to the launch.
    """
    if node.keywords or not node.args:
        raise type_problem("`static` takes one or more values", "write `sg.static(value)`")
    values = [python_value(t, arg) for arg in node.args]
    found = values[0] if len(values) == 1 else tuple(values)
    if isinstance(found, np.generic) or isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()  # as in `static_operand`
    if isinstance(found, OpaqueValue) and not is_sequence:
        found.refuse()
    return Static(found, hint_of(node.args[0]))


def hint_of(node: ast.expr) -> str:
    """Return an identifier for the result of an expression: its source text with `_` for other characters."""
    return re.sub(r"\W+", "_", ast.unparse(node)).strip("_")[:40]


def python_value(t: Tracer, node: ast.expr) -> Any:
    """Return the result of an expression that is evaluated by Python at compile time.

    Raises:
        ProblemError: the expression fails, or depends on something that only the launch knows.
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
    inputs = InputFinder(node, namespace).reads
    expression = ast.fix_missing_locations(ast.Expression(node))
    code = compile(expression, t.active.source.file, "eval")
    bound = {name: value for name, value in namespace.items() if name not in names}
    whole = partial(EvaluationRead, t.active.function, code, tuple(names), bound)
    try:
        found = _evaluated(code, namespace, node)
    except ProblemError as problem:
        cause = problem.__cause__
        t.reads += (
            [whole(failure(cause))] if isinstance(cause, Exception) else failed_reads(t.active.function, "static")
        )
        raise
    if inputs is None:
        t.reads.append(whole(found))
        _check_again(found, _evaluated(code, namespace, node), node)
    else:
        t.reads += inputs
    return found


def _evaluated(code: CodeType, namespace: dict[str, Any], node: ast.expr) -> Any:
    try:
        return materialize(eval(code, dict(namespace)))
    except ProblemError:
        raise
    except Exception as error:
        raise type_problem(
            f"the static expression fails: {type(error).__name__}: {error}", "correct it", node
        ) from error


def _check_again(found: Any, again: Any, node: ast.expr) -> None:
    """Raise ProblemError if evaluating a static expression again gave another result.

    Otherwise a launch and its gradient could be launches of different kernels.
    """
    if is_plain(found) and not snapshot(found).holds(again):
        raise type_problem(
            "the static expression gives something else each time it is evaluated",
            "evaluate it once, outside of the kernel, and use the result",
            node,
        )


class _KnownReplacer(ast.NodeTransformer):
    """This transformer replaces compile-time properties of run-time values in an expression, such as `len(v)`."""

    def __init__(self, t: Tracer, namespace: dict[str, Any]) -> None:
        self._t = t
        self._namespace = namespace

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace an attribute of a run-time value, such as its shape or type, by a name for the known object."""
        if not self._at_launch(node.value):
            self.generic_visit(node)
            return node
        return self._evaluated(node) if node.attr in _KNOWN_ATTRIBUTES else self._opaque(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Replace an element of a field, or of a value known only at launch, by a name for an opaque object."""
        known = isinstance(node.value, ast.Attribute) and node.value.attr in _KNOWN_ATTRIBUTES
        if not known and self._at_launch(node):
            return self._opaque(node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace `len(v)` of a run-time value, which is known at compile time, by a name for the number."""
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
        """Return True if an expression is an element of a field, or (a part of) a value known only at launch."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Subscript) and is_any_field(_object_quietly(self._t, node.value)):
                return True
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
        return self._named(node, found)

    def _opaque(self, node: ast.expr) -> ast.expr:
        """Return a new name that denotes an opaque object for an expression whose value is known only at launch."""
        return self._named(node, opaque(self._t, self._t.clean(node), node))

    def _named(self, node: ast.expr, found: Any) -> ast.expr:
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
    return opaque(t, t.clean(name), name)


def opaque(t: Tracer, operand: Operand, node: ast.expr) -> Any:
    """Return the Python object that an operand is, or an `OpaqueValue` in its place if only a launch knows it.

    Args:
        t: the tracer.
        operand: the operand.
        node: the expression of the operand, for messages.
    """
    found = known_object(operand)
    if found is not UNKNOWN:
        return found
    items = t.items(operand)
    parts = None if items is None else tuple(opaque(t, item, node) for item in items)
    return parts if isinstance(operand, Pack) else OpaqueValue(operand, node, parts)


def _object_quietly(t: Tracer, node: ast.expr) -> Any:
    """Return the object that a name such as `a.b.c` denotes here, without recording the read; None if unknown."""
    if isinstance(node, ast.Attribute):
        return getattr(_object_quietly(t, node.value), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    binding = t.scopes.find(node.id)
    if binding is None:
        return outer_name(t.active.function, node.id)
    return known_object(binding.operand) if isinstance(binding, FixedName) else None
