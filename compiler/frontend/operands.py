"""What an expression evaluates to while it is traced.

An operand is a value of the IR, an object known at compile time, a tree of operands (tuple, matrix, struct), or
poison. A number known at compile time stays one until a statement needs it: it takes a type from where it is used, and
is folded as in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.nodes import Value
from ..ir.types import Scalar
from .limits import ENTRIES, check_entries
from .protocols import AnyField, LaunchShape, View, is_any_field

if TYPE_CHECKING:
    from .aggregates import StructType
    from .context import Tracer

Number = bool | int | float


class Poison:
    """The result of an expression whose mistake was reported: everything made of it is silent."""

    def __repr__(self) -> str:
        return "POISON"


POISON = Poison()


@dataclass(frozen=True)
class Static:
    """An object known at compile time. `hint` is what the program calls it, for names in the IR."""

    value: Any
    hint: str = ""


@dataclass(frozen=True)
class Pack:
    """A tuple of operands; exists at compile time only."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class MatrixValue:
    """A vector (n,) or a matrix (n, m): its entries row by row, all values of one type or all numbers."""

    shape: tuple[int, ...]
    items: tuple[Operand, ...]

    def __post_init__(self) -> None:
        if len(self.items) > ENTRIES:
            check_entries(self.shape)


@dataclass(frozen=True)
class StructValue:
    """A struct: an operand for each member, converted to the member's type."""

    type: StructType
    members: Mapping[str, Operand]


@dataclass(frozen=True)
class ShapeOf:
    """`x.shape`: its extents are read at launch."""

    field: AnyField
    hint: str


@dataclass(frozen=True)
class Intrinsic:
    """A callable of the kernel language that is no function of its own: a method with its receiver, a constructor."""

    name: str
    call: Callable[[Tracer, ast.Call], Operand]


Operand = Value | Static | Pack | MatrixValue | StructValue | Poison


def static(value: Any, hint: str = "") -> Static:
    """A captured object as an operand; NumPy scalars count as Python numbers."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    return Static(value, hint)


def number(operand: Operand) -> Number | None:
    """The Python number an operand is, or None."""
    if isinstance(operand, Static) and isinstance(operand.value, (bool, int, float)):
        return operand.value
    return None


def integer(operand: Operand) -> int | None:
    """The Python integer (not boolean) an operand is, or None."""
    found = number(operand)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


UNKNOWN = object()
"""What `known` gives for an operand that is known at launch only."""


def known(operand: Operand) -> Any:
    """The Python object of an operand, or UNKNOWN."""
    if isinstance(operand, Static):
        if not isinstance(operand.value, ShapeOf):
            return operand.value
        shape = operand.value.field.shape
        return UNKNOWN if isinstance(shape, LaunchShape) else shape
    if isinstance(operand, (Pack, MatrixValue)):
        items = tuple(known(item) for item in operand.items)
        if any(item is UNKNOWN for item in items):
            return UNKNOWN
        return items if isinstance(operand, Pack) else np.reshape(items, operand.shape)
    return UNKNOWN


def shape_text(shape: tuple[int, ...]) -> str:
    """`a vector of 3`, `a 2×3 matrix`."""
    if len(shape) == 1:
        return f"a vector of {shape[0]}"
    return f"a {shape[0]}×{shape[1]} matrix"


def describe(operand: Operand) -> str:
    """The operand in words, for messages."""
    if isinstance(operand, Value):
        return f"a value of type {operand.type}"
    if isinstance(operand, Pack):
        return "a tuple"
    if isinstance(operand, MatrixValue):
        return shape_text(operand.shape)
    if isinstance(operand, StructValue):
        return str(operand.type)
    if not isinstance(operand, Static):
        return "a faulty value"
    value = operand.value
    name = f" `{operand.hint}`" if operand.hint else ""
    if is_any_field(value):
        return f"the field{name}"
    for kind, text in _KINDS:
        if isinstance(value, kind):
            return text + name
    return f"the {'function' if callable(value) else type(value).__name__}{name}"


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "None"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a real number"),
    (str, "a string"),
    (Scalar, "the type"),
    (ShapeOf, "the shape"),
    (View, "the view"),
    (Intrinsic, "the function"),
    (np.ndarray, "the NumPy array"),
    (ModuleType, "the module"),
    ((tuple, list), "a sequence"),
)
