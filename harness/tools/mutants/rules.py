"""This module contains mutants in which rules for derivatives of single operations are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....compiler.ad.rules import VJP
from .planting import Mutant, Plant, patched_rule


def _sub_without_sign() -> Plant:
    return patched_rule("sub", 1, lambda b, g, a, r: g)


@contextmanager
def _loser_takes() -> Iterator[None]:
    first, second = VJP["max"]
    assert first and second
    with patched_rule("max", 0, second), patched_rule("max", 1, first):
        yield


def _tanh_of_operand() -> Plant:
    """Return a mutant that differentiates tanh x as 1 - x², with the operand where the result belongs."""
    return patched_rule(
        "tanh", 0, lambda b, g, a, r: b.op("mul", g, b.op("sub", b.const(1.0, a[0].type), b.op("mul", a[0], a[0])))
    )


MUTANTS = (
    Mutant(
        "sub-without-sign",
        "The right operand of a subtraction gets the adjoint with the sign of the left one.",
        "d(x - y)/dy = -1",
        _sub_without_sign,
    ),
    Mutant(
        "max-loser-takes",
        "The smaller operand of max takes the adjoint.",
        "the operand that max returned takes the whole adjoint",
        _loser_takes,
    ),
    Mutant(
        "tanh-of-operand",
        "The derivative of tanh is computed from its operand as if that were its result.",
        "tanh' x = 1 - tanh² x",
        _tanh_of_operand,
    ),
)
