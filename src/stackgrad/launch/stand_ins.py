"""Make the stand-ins that represent the arrays of a launch while its kernel is traced.

Invariant: an array has one stand-in, even if a call passes it several times or under several names. The adjoint of a
stand-in represents the adjoint of the array.
"""

from __future__ import annotations

from typing import Any

from ..compiler.frontend.aggregates import MatrixType, adjoint_element
from ..compiler.frontend.protocols import ArgumentArray, ArgumentMatrixArray, ArgumentStructArray
from ..compiler.ir.extents import NARROW, is_wide
from ..compiler.ir.types import Scalar, adjoint_type
from ..data.fields.array import Array
from ..data.leaves import Leaf


class StandInMaker:
    """Make the stand-ins of the arrays of a call; an array that is passed twice has one stand-in.

    Attributes:
        leaves: The arrays of the call in order.
        fixed: Identities of leaves that the kernel also uses under another name, and that get no stand-in.
        next: The number of the next leaf.
        made: The stand-ins made so far, by the identity of their arrays.
    """

    def __init__(self, leaves: list[Leaf], fixed: frozenset[int]) -> None:
        self.leaves = leaves
        self.fixed = fixed
        self.next = 0
        self.made: dict[int, Any] = {}

    def array(self, dtype: Scalar, shape: tuple[int, ...], needs_grad: bool) -> Any:
        """Return the stand-in of the next array of the call: each call of this method takes one array.

        Args:
            dtype: The element type of the leaf.
            shape: The shape that the kernel sees.
            needs_grad: True if the stand-in needs an adjoint.
        """
        slot, leaf = self.next, self.leaves[self.next]
        self.next += 1
        number = identity_of(leaf)
        if number in self.fixed:
            return leaf
        if number in self.made:
            return self.made[number]
        gradient, offset, wide = None, leaf.offset if isinstance(leaf, Array) else (), is_wide_leaf(leaf)
        if needs_grad:
            own = leaf.grad if isinstance(leaf, Array) else None
            kept = adjoint_type(dtype)
            gradient = self.made.get(id(own)) or ArgumentArray(kept, shape, False, slot, None, True, offset, wide=wide)
            if own is not None:
                self.made[id(own)] = gradient
        made = self.made[number] = ArgumentArray(dtype, shape, needs_grad, slot, gradient, False, offset, wide=wide)
        return made


def is_wide_leaf(leaf: Leaf) -> bool:
    """Return True if kernels need 64-bit indices for the elements of this array."""
    if not isinstance(leaf, Array):
        return not 0 < leaf.memory.nbytes < NARROW and is_wide(leaf.memory.shape)
    return (not 0 < leaf.buffer.nbytes < NARROW or bool(leaf.offset)) and is_wide(leaf.shape, leaf.offset)


def identity_of(leaf: Leaf) -> int:
    """Return the id of the object that the caller passed as this array."""
    return id(leaf if isinstance(leaf, Array) else leaf.owner)


def matrix_stand_in(element: MatrixType, storage: Any, element_first: bool) -> ArgumentMatrixArray:
    """Return the stand-in of an array of vectors or matrices.

    Args:
        element: The type of an element.
        storage: The stand-in of the array of scalars that holds the entries.
        element_first: True if the axes of an element come before the axes of the array.
    """
    gradient = None
    if storage.grad is not None:
        gradient = ArgumentMatrixArray(adjoint_element(element), storage.grad, None, element_first)
    return ArgumentMatrixArray(element, storage, gradient, element_first)


def matrix_field_stand_in(value: Any, storage: Any) -> Any:
    """Return the stand-in of a field or ndarray of matrices, or the array itself if its storage has no stand-in."""
    return matrix_stand_in(value.element, storage, value.element_first) if isinstance(storage, ArgumentArray) else value


def struct_stand_in(value: Any, members: dict[str, Any]) -> ArgumentStructArray:
    """Return the stand-in of a field of structs, made of the stand-ins of its members."""
    gradients = {name: member.grad for name, member in members.items()}
    gradient = None
    if all(g is not None for g in gradients.values()):
        gradient = ArgumentStructArray(adjoint_element(value.type), value.shape, gradients, None, value.offset)
    return ArgumentStructArray(value.type, value.shape, members, gradient, value.offset)
