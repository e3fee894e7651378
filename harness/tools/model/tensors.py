"""Represent vectors, matrices and structs during lowering, and apply functions to each of their scalars.

Invariant: the entries of a tensor all have the same type, or all are numbers of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from ....compiler.ir.statement import Value
from ....compiler.ir.types import promote

if TYPE_CHECKING:
    from .lowering import Lowerer


@dataclass(frozen=True)
class TensorOperand:
    """Represent a vector of shape (n,) or matrix of shape (n, m) by the operands or places of its entries.

    The items are operands if it is a value, and places if it is memory.
    """

    shape: tuple[int, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True)
class StructOperand:
    """Represent a struct by the operands or places of its members, which may be tensors and structs.

    The items are operands if it is a value, and places if it is memory.
    """

    struct: str
    items: dict[str, Any]


def unify(t: Lowerer, shape: tuple[int, ...], items: Sequence[Any]) -> TensorOperand:
    """Return a tensor of the given shape, with all entries converted to their common type."""
    if not any(isinstance(item, Value) for item in items):
        real = any(isinstance(item, float) for item in items)
        return TensorOperand(shape, tuple(float(item) if real else item for item in items))
    types = [t.type_of(item) for item in items]
    dtype = types[0] if len(set(types)) == 1 else reduce(promote, types)
    return TensorOperand(shape, tuple(t.value(item, dtype) for item in items))


def map_entries(t: Lowerer, function: Callable[..., Any], *operands: Any) -> Any:
    """Apply a function to operands, entry by entry if an operand is a tensor, and return the result."""
    tensors = [o for o in operands if isinstance(o, TensorOperand)]
    if not tensors:
        return function(*operands)
    shape = tensors[0].shape
    assert all(o.shape == shape for o in tensors), f"shapes {[o.shape for o in tensors]}"
    count = len(tensors[0].items)
    made = [function(*(o.items[k] if isinstance(o, TensorOperand) else o for o in operands)) for k in range(count)]
    return unify(t, shape, made)


def leaves(operand: Any) -> tuple[Any, ...]:
    """Return the scalars of an operand in order."""
    if isinstance(operand, TensorOperand):
        return operand.items
    if isinstance(operand, StructOperand):
        return leaves(tuple(operand.items.values()))
    if isinstance(operand, tuple):
        return tuple(leaf for item in operand for leaf in leaves(item))
    return (operand,)


def with_leaves(operand: Any, values: Iterable[Any]) -> Any:
    """Return a copy of an operand whose scalars are replaced by other values, in order."""
    return _rebuilt(operand, iter(values))


def _rebuilt(operand: Any, values: Iterator[Any]) -> Any:
    if isinstance(operand, TensorOperand):
        return TensorOperand(operand.shape, tuple(next(values) for _ in operand.items))
    if isinstance(operand, StructOperand):
        return StructOperand(operand.struct, {name: _rebuilt(item, values) for name, item in operand.items.items()})
    if isinstance(operand, tuple):
        return tuple(_rebuilt(item, values) for item in operand)
    return next(values)
