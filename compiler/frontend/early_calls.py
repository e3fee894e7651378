"""This module traces calls as programs of early Taichi write them: `v(0)` for an entry, `x[i].atomic_add(value)`."""

from __future__ import annotations

import ast

from ..ir.types import Scalar
from .aggregates import MatrixType
from .context import Tracer
from .diagnostics import type_problem
from .memory import PLACES, Place, is_argument, kind_at, resolve
from .operands import MatrixValue, Operand, shape_text
from .places import assignable
from .selections import select, select_entries

_ATOMIC = "atomic_"


def called_entry(t: Tracer, matrix: MatrixValue, node: ast.Call) -> Operand:
    """Return the entry whose position stands in parentheses, as programs of early Taichi write it: `v(0)`, `M(i, j)`.

    One position in a matrix of several columns means the first column.

    Raises:
        ProblemError: the positions are not as many as the axes, or one of them is no number.
    """
    rank, text = len(matrix.shape), ast.unparse(node.func)
    positions = [*node.args, *[ast.copy_location(ast.Constant(0), node)] * (rank - max(len(node.args), 1))]
    if node.keywords or len(positions) != rank or any(isinstance(at, (ast.Starred, ast.Slice)) for at in positions):
        raise type_problem(f"{shape_text(matrix.shape)} cannot be called", f"write `{text}[i]`, with an index")
    selection = select(t, matrix.shape, ast.Tuple(positions, ast.Load()), f"`{text}`", True)
    return select_entries(t, matrix, selection)


def atomic_method(t: Tracer, node: ast.Call) -> tuple[str, Place] | None:
    """Return the operation and the place of a call such as `x[i].atomic_add(value)`; None for any other call.

    A function has two arguments, `atomic_add(x[i], value)`, and is never found here; nor is a method of a struct.

    Raises:
        ProblemError: the place cannot be assigned.
    """
    func = node.func
    if not isinstance(func, ast.Attribute) or not func.attr.startswith(_ATOMIC) or len(node.args) != 1:
        return None
    if node.keywords or isinstance(node.args[0], ast.Starred):
        return None
    found = resolve(t, func.value)
    if not isinstance(found, PLACES) or is_argument(found) or not isinstance(kind_at(found), (Scalar, MatrixType)):
        return None
    return func.attr.removeprefix(_ATOMIC), assignable(t, func.value, found)
