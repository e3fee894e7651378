"""This module applies scalar functions element by element to vectors and matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .context import Tracer
from .conversions import as_matrix, unify_entries
from .diagnostics import type_problem
from .operands import MatrixValue, Operand, Pack, shape_text


def broadcast(t: Tracer, name: str, function: Callable[..., Operand], *operands: Operand) -> Operand:
    """Return the result of `function` on the operands, element by element if one is a vector or matrix.

    A number is used for every entry. A sequence beside a vector or matrix counts as a vector. A function with several
    results gives as many matrices.

    Args:
        t: the tracer.
        name: name of the function in messages.
        function: function of scalar operands.
        operands: its operands.

    Raises:
        ProblemError: the shapes differ.
    """
    if not any(isinstance(o, MatrixValue) for o in operands):
        return function(*operands)
    found = [as_matrix(t, o) for o in operands]
    shapes = list(dict.fromkeys(m.shape for m in found if m is not None))
    if len(shapes) > 1:
        raise shape_mismatch(name, shapes)
    size = next(len(m.items) for m in found if m is not None)
    made = [function(*(m.items[i] if m else o for m, o in zip(found, operands))) for i in range(size)]
    return _gathered(t, shapes[0], made)


def _gathered(t: Tracer, shape: tuple[int, ...], made: Sequence[Operand]) -> Operand:
    first = made[0]
    if not isinstance(first, Pack):
        return unify_entries(t, shape, made)
    columns = zip(*(pack.items for pack in made if isinstance(pack, Pack)))
    return Pack(tuple(unify_entries(t, shape, column) for column in columns))


def shape_mismatch(name: str, shapes: Sequence[tuple[int, ...]]) -> Exception:
    """Return the error for operands whose shapes differ, with a cure that fits the shapes."""
    cure = "give both the same shape"
    if name == "*" and len(shapes[0]) == 2 and shapes[1][0] == shapes[0][1]:
        cure = "multiply matrices with `@`; `*` works entry by entry"
    elif shapes[0] == shapes[1][::-1]:
        cure = "transpose one of them with `.transpose()`"
    return type_problem(f"`{name}` is given {shape_text(shapes[0])} and {shape_text(shapes[1])}", cure)
