"""This module lowers `stop_grad`, which ends derivatives, and `assume_unique`, which claims indices to be unique.

    stop_grad(x[i] * y)     of a value: returns the value as a constant, by a `bit_cast` to its own type
    stop_grad(x)            of a field: later loads from x in this block, and in blocks in it, are constants

`stop_grad` needs no operation of its own: a `bit_cast` of a real to its own type is exact and ends derivatives in every
executor. `assume_unique` marks indices that no two iterations share; the compiler trusts the program.
"""

from __future__ import annotations

import ast
from typing import Any

from ..ir.statement import Value
from .arguments import arguments, positional
from .calls import LOWERINGS
from .context import Tracer
from .diagnostics import type_problem
from .operands import Operand, Pack, Static, describe, number_of
from .protocols import is_any_field, is_field, is_matrix_field
from .trees import leaves, with_leaves


@LOWERINGS.row("stop_grad")
def _stop_grad(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "stop_grad", "x")
    if isinstance(x, Static) and is_any_field(x.value):
        t.active.stopped |= _arrays(t, x.value, x.hint)
        return Static(None)
    return with_leaves(x, [_stopped(t, leaf) for leaf in leaves(x)])


@LOWERINGS.row("assume_unique")
def _assume_unique(t: Tracer, node: ast.Call) -> Operand:
    given = positional(t, node.args)
    if not given or node.keywords:
        raise type_problem(
            "`assume_unique` takes the indices that different iterations do not share",
            "write j = sg.assume_unique(j), or a, b = sg.assume_unique(a, b)",
        )
    claim = t.builder.next_id
    made = [with_leaves(x, [_claimed(t, leaf, claim) for leaf in leaves(x)]) for x in given]
    return made[0] if len(made) == 1 else Pack(tuple(made))


def _claimed(t: Tracer, leaf: Operand, claim: int) -> Operand:
    """Emit the claim that a value is unique and return the claimed value. Parts of one tuple share a claim number.

    Raise ProblemError if the operand is no integer.
    """
    if number_of(leaf) is None and not isinstance(leaf, Value) or not t.type_of(leaf).is_int:
        raise type_problem(f"`assume_unique` takes integers, not {describe(leaf)}", "give the indices of the elements")
    value = t.value(leaf)
    return t.builder.op("unique", value, t.builder.const(claim, value.type))


def _stopped(t: Tracer, leaf: Operand) -> Operand:
    if isinstance(leaf, Value):
        return t.builder.bit_cast(leaf, leaf.type) if leaf.type.is_real else leaf
    if number_of(leaf) is None:
        raise type_problem(
            f"`stop_grad` takes values and fields, not {describe(leaf)}", "give an expression or a field"
        )
    return leaf


def _arrays(t: Tracer, field: Any, hint: str) -> frozenset[str]:
    """Return the names of the scalar arrays of a field."""
    if is_field(field):
        return frozenset({t.captures.array(field, hint)})
    if is_matrix_field(field):
        return frozenset({t.captures.array(field.storage, hint)})
    return frozenset().union(*(_arrays(t, inner, f"{hint}.{name}") for name, inner in field.members.items()))
