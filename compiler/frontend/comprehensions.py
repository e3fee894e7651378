"""This module unrolls list comprehensions, whose length is known at compile time, into a tuple of operands."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from .context import EXPRESSIONS, Tracer
from .diagnostics import syntax_problem, type_problem
from .domains import chosen
from .limits import check_items, check_size
from .operands import UNKNOWN, Operand, Pack, Static, describe, known_object, static_operand
from .scope import FixedName
from .static import evaluate_static, static_call


@EXPRESSIONS.row(ast.ListComp)
@EXPRESSIONS.row(ast.GeneratorExp)
def _comprehension(t: Tracer, node: ast.ListComp | ast.GeneratorExp) -> Operand:
    found: list[Operand] = []
    _run(t, node.generators, node.elt, found)
    return Pack(tuple(found))


def _run(t: Tracer, generators: Sequence[ast.comprehension], element: ast.expr, found: list[Operand]) -> None:
    """Append the elements of a comprehension to `found`; the first generator is the outermost loop."""
    if not generators:
        found.append(t.clean(element))
        return
    first = generators[0]
    domain = _domain(t, first.iter)
    check_items(domain)
    for item in domain:
        check_size(t.builder.next_id)
        with t.scopes.inner(dynamic=False, apart=True):
            _bind(t, first.target, item)
            if all(_holds(t, condition) for condition in first.ifs):
                _run(t, generators[1:], element, found)


def _domain(t: Tracer, node: ast.expr) -> Sequence[Operand]:
    """Return the operands that a generator of a comprehension iterates over; their number is known at compile time."""
    node = chosen(t, node)
    call = static_call(t, node)
    if call is not None:
        values = evaluate_static(t, call, is_sequence=True).value
        check_items(values)
        return [static_operand(value) for value in values]
    if isinstance(node, ast.Call):
        callee = t.clean(node.func)
        if isinstance(callee, Static) and callee.value is builtins.range:
            return _numbers(range(*(_constant(t, end) for end in node.args)))
    operand = t.clean(node)
    if isinstance(operand, Static) and isinstance(operand.value, range):
        return _numbers(operand.value)
    items = t.items(operand)
    if items is None:
        raise type_problem(
            f"{describe(operand)} is not known at compile time, as what a comprehension runs over has to be",
            "write `for i in range(n)` with a constant n",
            node,
        )
    return items


def _numbers(found: range) -> list[Operand]:
    check_items(found)
    return [Static(i) for i in found]


def _constant(t: Tracer, node: ast.expr) -> int:
    found = known_object(t.clean(node))
    if not isinstance(found, int):
        raise type_problem(
            "a comprehension runs over a range known at compile time", "use constants, or fill a vector in a loop", node
        )
    return found


def _bind(t: Tracer, target: ast.expr, item: Operand) -> None:
    """Bind the target names of a comprehension's generator to one item."""
    if isinstance(target, ast.Name):
        t.scopes.declare(target.id, FixedName(item, "index of the comprehension"), target.lineno)
        return
    items = t.items(item)
    if not isinstance(target, (ast.Tuple, ast.List)) or items is None or len(items) != len(target.elts):
        raise syntax_problem(
            "the index of a comprehension is a name, or as many names as there are values", "name each value", target
        )
    for inner, value in zip(target.elts, items):
        _bind(t, inner, value)


def _holds(t: Tracer, node: ast.expr) -> bool:
    """Return True if a condition of a comprehension holds; the condition must be known at compile time."""
    condition = known_object(t.clean(node))
    if condition is UNKNOWN:
        raise type_problem(
            "the condition of a comprehension is known at compile time", "choose with `a if c else b`", node
        )
    return bool(condition)
