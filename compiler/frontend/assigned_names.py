"""This module finds the names that the body of a function or loop assigns or whose parts it changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from .matrices import METHODS
from .source import FUNCTIONS


@lru_cache(maxsize=FUNCTIONS)
def assigned_in_body(node: ast.FunctionDef | ast.For) -> frozenset[str]:
    """Return the names that a body assigns, or whose parts it may change by a store, method or atomic."""
    return frozenset(name for stmt in node.body for inner in ast.walk(stmt) for name in _assigned_by(inner))


def _assigned_by(node: ast.AST) -> Iterable[str]:
    """Return the name that one node of a syntax tree, without the nodes in it, assigns or may change, if any."""
    if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        return (_root(node),)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr.startswith("atomic_") and node.args:
            # `atomic_add(x[i], value)`, or `x[i].atomic_add(value)` as in early Taichi
            return (_root(node.args[0] if len(node.args) > 1 else node.func.value),)
        if node.func.attr not in METHODS:
            return (_root(node.func.value),)
    return ()


def _root(node: ast.expr) -> str:
    """Return the variable at the base of an expression like `a.b[i]`, or "" if there is none."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
