"""This module lowers `x.fill(value)` to a loop that stores to every element of the field.

The loop is parallel where a loop of the program would be parallel. Invariant: the value is computed once, before the
loop.
"""

from __future__ import annotations

import ast
from functools import partial

from .arguments import arguments
from .context import Tracer
from .operands import Intrinsic, Operand, Static
from .protocols import AnyField
from .scope import FixedName

_FIELD, _VALUE, _INDEX = "fill field", "fill value", "fill index"
"""No program can use these names, because they contain a space."""


def fill_method(field: AnyField, hint: str) -> Static:
    """Return the operand for the method `fill` of a field, which kernels call as `x.fill(value)`."""
    return Static(Intrinsic("fill", partial(_fill, Static(field, hint))), f"{hint}.fill")


def _fill(field: Static, t: Tracer, node: ast.Call) -> Operand:
    (value,) = arguments(t, node, "fill", "value")
    rank = len(field.value.shape)
    with t.scopes.inner(dynamic=False):
        t.scopes.declare(_FIELD, FixedName(field, "field"), node.lineno)
        t.scopes.declare(_VALUE, FixedName(value, "value"), node.lineno)
        t.statement(_located(_loop() if rank else _store(ast.Constant(None)), node))
    return Static(None)


def _loop() -> ast.stmt:
    return ast.For(ast.Name(_INDEX, ast.Store()), _name(_FIELD), [_store(_name(_INDEX))], [])


def _store(index: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Subscript(_name(_FIELD), index, ast.Store())], _name(_VALUE))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _located(statement: ast.stmt, node: ast.Call) -> ast.stmt:
    """Set the source location of every node of a statement to that of the call, and return the statement."""
    for inner in ast.walk(statement):
        ast.copy_location(inner, node)
    return statement
