"""Lower expressions on structs to IR: values made of members, and reads of members."""

from __future__ import annotations

from math import prod

from . import nodes as m
from .lower_places import lower_place, read
from .lowering import EXPRESSIONS, Lowerer, ModelOperand
from .tensors import StructOperand, TensorOperand, leaves, with_leaves


@EXPRESSIONS.row(m.Make)
def _make(t: Lowerer, e: m.Make) -> ModelOperand:
    """Evaluate all values of a struct constructor, convert each to its member's type, and return the struct."""
    kind = t.program.struct(e.struct)
    values = [t.expr(v) for v in e.values]
    return StructOperand(kind.name, {p.name: _fitted(t, p, v) for p, v in zip(kind.members, values, strict=True)})


def _fitted(t: Lowerer, member: m.Param, operand: ModelOperand) -> ModelOperand:
    """Convert an operand to the type and shape of a struct member; a scalar fills all entries of a vector."""
    if member.struct:
        return operand
    if member.shape and not isinstance(operand, TensorOperand):
        return TensorOperand(member.shape, (t.value(operand, member.dtype),) * prod(member.shape))
    assert isinstance(operand, TensorOperand) == bool(member.shape)
    return with_leaves(operand, [t.value(leaf, member.dtype) for leaf in leaves(operand)])  # type: ignore[no-any-return]


@EXPRESSIONS.row(m.Member)
def _member(t: Lowerer, e: m.Member) -> ModelOperand:
    """Return a member of a struct. If the struct is an element of a field, only this member is loaded."""
    if isinstance(m.root(e), m.Element):
        return read(t, lower_place(t, e))
    base = t.expr(e.base)
    assert isinstance(base, StructOperand)
    return base.items[e.name]  # type: ignore[no-any-return]
