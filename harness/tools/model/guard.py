"""Refuse the text of a program that contains more than kernel code, such as imports, before Python runs the text.

Programs are read with closed tables (`words`), so their text cannot hold anything foreign. If a table ever let
something through, this check would stop it. It allows no import, no lambda, no name with a leading underscore, only a
few names that Python defines, and only builtins that give no access to files, modules or the interpreter.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from ..plain_data import MalformedDataError

_NODES = (
    ast.Module,
    ast.FunctionDef,
    ast.ClassDef,
    ast.arguments,
    ast.arg,
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.Assert,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
    ast.BoolOp,
    ast.NamedExpr,
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.ListComp,
    ast.GeneratorExp,
    ast.comprehension,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Name,
    ast.List,
    ast.Tuple,
    ast.Slice,
    ast.expr_context,
    ast.boolop,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)
_CONSTANTS = (bool, int, float, str, type(None))
_CALLED = ("abs", "min", "max", "round", "range", "reversed", "sum", "int", "float", "bool")
BUILTINS = {name: getattr(builtins, name) for name in (*_CALLED, "AssertionError", "__build_class__")}
"""The builtins that the text of a program can reach."""


def checked_tree(text: str, file: str, alias: str, given: Iterable[str]) -> ast.Module:
    """Return the syntax tree of a Python text. Raise MalformedDataError if the text has more than kernel code.

    Args:
        text: The Python text of a program.
        file: Name of the text for messages.
        alias: Name of the language's package in the text.
        given: Names that are defined in addition to the package.

    Raises:
        MalformedDataError: The tree has a node or a name that no kernel has.
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(text, file)
    nodes = list(ast.walk(tree))
    known = {alias, *given, *_CALLED, *_bound(nodes)}
    for node in nodes:
        reason = _foreign(node, known)
        if reason:
            place = f"{file}:{getattr(node, 'lineno', 1)}"
            raise MalformedDataError(
                f"{place}: the text of a program has {reason}", "report this: no program has such a text"
            )
    return tree


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that the text of a program defines."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def _foreign(node: ast.AST, known: set[str]) -> str:
    """Return a description of the part of a syntax node that no kernel may contain, or "" if there is none."""
    if not isinstance(node, _NODES):
        return f"a {type(node).__name__}"
    if isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS):
        return f"a constant {ascii(node.value)[:40]}"
    names = [getattr(node, kind, None) or "" for kind in ("id", "attr", "arg", "name")]
    # Attributes such as `__class__` would give access to the interpreter.
    hidden = [name for name in names if name.startswith("_")]
    if hidden:
        return f"the name {hidden[0]}"
    if isinstance(node, ast.Name) and node.id not in known and hasattr(builtins, node.id):
        return f"the name {node.id}, which only Python defines"
    if isinstance(node, ast.Call) and not isinstance(node.func, (ast.Name, ast.Attribute)):
        return "a call of what is no function"
    return ""
