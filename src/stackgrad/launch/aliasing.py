"""Find out which arrays of a call are the same memory: one array given twice, or the gradient of another array."""

from __future__ import annotations

from ..data.fields.array import Array
from ..data.leaves import Leaf
from .stand_ins import identity_of


def aliases(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Return which arguments are the same array, or the gradient of another argument; None if all are different."""
    first: dict[int, int] = {}
    pattern = []
    for position, leaf in enumerate(leaves):
        # Even numbers stand for leaves, odd ones for their gradients; the first occurrence names later ones.
        pattern.append(first.setdefault(identity_of(leaf), 2 * position))
        if isinstance(leaf, Array) and leaf.needs_grad:
            pattern.append(first.setdefault(id(leaf.grad), 2 * position + 1))
    return None if len(first) == len(pattern) else tuple(pattern)


def is_among(leaf: Leaf, own: frozenset[int]) -> bool:
    """Return True if a leaf, or its gradient, has one of these identities."""
    return isinstance(leaf, Array) and (id(leaf) in own or (leaf.needs_grad and id(leaf.grad) in own))
