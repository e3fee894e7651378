"""Detect arrays that a call passes twice, or whose gradient the call also passes as an array."""

from __future__ import annotations

from ..data.fields.array import Array
from ..data.leaves import Leaf
from .stand_ins import identity_of


def aliases(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Return a tuple with equal numbers for arguments that are the same array or gradient; None if all differ."""
    first: dict[int, int] = {}
    pattern = []
    for position, leaf in enumerate(leaves):
        # Even numbers stand for leaves, odd ones for their gradients; the first occurrence names later ones.
        pattern.append(first.setdefault(identity_of(leaf), 2 * position))
        if isinstance(leaf, Array) and leaf.needs_grad:
            pattern.append(first.setdefault(id(leaf.grad), 2 * position + 1))
    return None if len(first) == len(pattern) else tuple(pattern)


def is_among(leaf: Leaf, own: frozenset[int]) -> bool:
    """Return True if the set `own` contains the id of an array, or the id of the array's gradient."""
    return isinstance(leaf, Array) and (id(leaf) in own or (leaf.needs_grad and id(leaf.grad) in own))
