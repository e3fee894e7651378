"""This module decomposes operands into their scalars, and rebuilds the same aggregate from other scalars.

Branches, results of functions and assignments work on these scalars, the leaves of an operand; only this module knows
how an operand is taken apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from .operands import MatrixValue, Operand, Pack, Static, StructValue

NUMBER, NOTHING = "number", "nothing"


def leaves(operand: Operand) -> tuple[Operand, ...]:
    """Return the scalar operands that a vector, matrix, struct or tuple consists of; a scalar is returned alone."""
    if isinstance(operand, (Pack, MatrixValue)):
        return tuple(leaf for item in operand.items for leaf in leaves(item))
    if isinstance(operand, StructValue):
        return tuple(leaf for item in operand.members.values() for leaf in leaves(item))
    return (operand,)


def with_leaves(operand: Operand, values: Iterable[Operand]) -> Operand:
    """Return an aggregate of the same structure as `operand` with the given scalars."""
    return _rebuilt(operand, iter(values))


def _rebuilt(operand: Operand, values: Iterator[Operand]) -> Operand:
    if isinstance(operand, Pack):
        return Pack(tuple(_rebuilt(item, values) for item in operand.items))
    if isinstance(operand, MatrixValue):
        return MatrixValue(operand.shape, tuple(_rebuilt(item, values) for item in operand.items))
    if isinstance(operand, StructValue):
        members = {name: _rebuilt(item, values) for name, item in operand.members.items()}
        return StructValue(operand.type, members)
    return next(values)


def form(operand: Operand) -> Hashable:
    """Return the structure of an operand (tuple, matrix shape, struct type, number or None) for comparison."""
    if isinstance(operand, Pack):
        return ("tuple", *map(form, operand.items))
    if isinstance(operand, MatrixValue):
        return ("matrix", operand.shape)
    if isinstance(operand, StructValue):
        return ("struct", operand.type)
    if isinstance(operand, Static) and operand.value is None:
        return NOTHING
    return NUMBER
