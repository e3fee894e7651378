"""`stop_grad`: values, and loads of fields, that are constants to every derivative.

    stop_grad(x[i] * y)     a value: itself, as bits of its own type, which have no derivative
    stop_grad(x)            a field: what this block, and blocks in it, load from x from here on

Needs no operation of its own: `bit_cast` of a real to its own type is exact and ends derivatives in every executor.
"""
from __future__ import annotations

import ast
from typing import Any

from ..ir.nodes import Value
from .arguments import arguments
from .calls import LOWERINGS
from .context import Tracer
from .diagnostics import mistyped
from .operands import Operand, Static, describe, number
from .protocols import is_any_field, is_field, is_matrix_field
from .trees import leaves, with_leaves


@LOWERINGS.row("stop_grad")
def _stop_grad(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "stop_grad", "x")
    if isinstance(x, Static) and is_any_field(x.value):
        t.active.stopped |= _arrays(t, x.value, x.hint)
        return Static(None)
    return with_leaves(x, [_stopped(t, leaf) for leaf in leaves(x)])


def _stopped(t: Tracer, leaf: Operand) -> Operand:
    if isinstance(leaf, Value):
        return t.builder.bit_cast(leaf, leaf.type) if leaf.type.is_real else leaf
    if number(leaf) is None:
        raise mistyped(f"`stop_grad` takes values and fields, not {describe(leaf)}", "give an expression or a field")
    return leaf


def _arrays(t: Tracer, field: Any, hint: str) -> frozenset[str]:
    """The names of the scalar arrays of a field."""
    if is_field(field):
        return frozenset({t.captures.array(field, hint)})
    if is_matrix_field(field):
        return frozenset({t.captures.array(field.storage, hint)})
    return frozenset().union(*(_arrays(t, inner, f"{hint}.{name}") for name, inner in field.members.items()))
