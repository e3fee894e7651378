"""This module finds which operands and results a derivative rule reads, by running the rule on placeholders.

The result decides which values the reverse sweep needs, and so what is saved: `neg` reads nothing, `mul` reads the
other operand, `tanh` its result, `sin` its operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..ir.build import Builder
from ..ir.statement import Value
from ..ir.types import Scalar
from ..ir.walk import operands
from .rules import VJP


@dataclass(frozen=True)
class RuleReads:
    """Represent which operands a derivative rule reads, and if it reads the result.

    Attributes:
        operands: Positions of the operands that the rule reads.
        result: True if the rule reads the result.
    """

    operands: frozenset[int]
    result: bool


@cache
def needs(op: str, types: tuple[Scalar, ...], out: Scalar, position: int) -> RuleReads | None:
    """Return the operands and result that the derivative rule for an operand reads; None if there is no rule.

    A rule that returns an operand unchanged reads that operand.

    Args:
        op: Name of the operation.
        types: Types of the operands.
        out: Type of the result.
        position: Position of the operand.
    """
    rule = VJP[op][position]
    if rule is None:
        return None
    args = tuple(Value(-2 - k, t) for k, t in enumerate(types))
    result, adjoint = Value(-1, out), Value(-100, out)
    b = Builder()
    share = rule(b, adjoint, args, result)
    read = {v for stmt in b.take() for v in operands(stmt)} | {share}
    return RuleReads(frozenset(k for k, a in enumerate(args) if a in read), result in read)
