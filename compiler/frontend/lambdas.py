"""This module finds the text of a lambda, and turns it into the definition of a function that returns the expression.

A file may have several lambdas in one line. The positions that Python keeps for each instruction tell them apart.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import CodeType

from ..errors import KernelSyntaxError, Span
from .source import FunctionSource

_Extent = tuple[int, int, int, int]
"""First line, first column, last line and last column of a text; columns count UTF-8 bytes."""


@lru_cache(maxsize=512)
def lambda_source(code: CodeType) -> FunctionSource:
    """Return a lambda as the definition of a function; line numbers and columns are those of the file.

    Raises:
        KernelSyntaxError: the text is not there, or does not contain the lambda any more.
    """
    lines = linecache.getlines(code.co_filename)
    node = _node(code, "".join(lines))
    if node is None:
        line = lines[code.co_firstlineno - 1].rstrip("\n") if code.co_firstlineno <= len(lines) else ""
        raise KernelSyntaxError(
            "the text of a lambda is not found where it was compiled",
            "write it with `def`",
            Span(code.co_filename, code.co_firstlineno, len(line) - len(line.lstrip()), len(line), line),
        )
    result = ast.copy_location(ast.Return(node.body), node.body)
    tree = ast.FunctionDef(code.co_name, node.args, [result], [], None, None)
    tree = ast.fix_missing_locations(ast.copy_location(tree, node))
    return FunctionSource(code.co_filename, node.lineno, tuple(lines[node.lineno - 1 : node.end_lineno]), tree)


def _node(code: CodeType, text: str) -> ast.Lambda | None:
    """Return the lambda in the text from which `code` was compiled, or None if the text does not contain it."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    wanted = _extent_of_code(code)
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and _extent(node.body) == wanted and _parameters(node) == _names(code):
            return node
    return None


def _extent(node: ast.expr) -> _Extent:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0


def _extent_of_code(code: CodeType) -> _Extent:
    """Return the extent of the text of all instructions of a lambda, which is the extent of its expression."""
    found = [tuple(n for n in p if n is not None) for p in code.co_positions()]
    whole = [p for p in found if len(p) == 4 and p[2] != p[3]]
    if not whole:
        return 0, 0, 0, 0
    first = min((line, column) for line, _, column, _ in whole)
    last = max((line, column) for _, line, _, column in whole)
    return (*first, *last)


def _parameters(node: ast.Lambda) -> tuple[str, ...]:
    given = node.args
    return tuple(arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
