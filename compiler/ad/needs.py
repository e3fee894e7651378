"""What a derivative rule reads, found by running it on placeholders.

The answer decides what the reverse sweep must have and so what is saved: `neg` reads nothing, `mul` the other
operand, `tanh` its result, `sin` its operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..ir.build import Builder
from ..ir.nodes import Value
from ..ir.types import Scalar
from ..ir.walk import operands
from .rules import VJP


@dataclass(frozen=True)
class Needs:
    """operands: positions read. result: whether the result is read."""

    operands: frozenset[int]
    result: bool


@cache
def needs(op: str, types: tuple[Scalar, ...], out: Scalar, position: int) -> Needs | None:
    """What the share of operand `position` reads; None if that operand gets no share.

    types, out: types of operands and result. A rule that returns an operand unchanged reads it.
    """
    rule = VJP[op][position]
    if rule is None:
        return None
    args = tuple(Value(-2 - k, t) for k, t in enumerate(types))
    result, adjoint = Value(-1, out), Value(-100, out)
    b = Builder()
    share = rule(b, adjoint, args, result)
    read = {v for stmt in b.take() for v in operands(stmt)} | {share}
    return Needs(frozenset(k for k, a in enumerate(args) if a in read), result in read)
