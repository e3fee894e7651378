"""This module defines operands: the results of expressions while a kernel is traced.

An operand is a value of the IR, an object known at compile time, a tree of operands (tuple, matrix, struct), or poison.
A number known at compile time stays a number until a statement needs it: it takes its type from where it is used, and
is folded as in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.statement import Value
from ..ir.types import Scalar
from .limits import ENTRIES, check_entries
from .opaque_values import OpaqueValue
from .protocols import AnyField, LaunchShape, ViewOperand, is_any_field

if TYPE_CHECKING:
    from .aggregates import StructType
    from .context import Tracer

Number = bool | int | float


class Poison:
    """A `Poison` is the operand of an expression whose mistake was reported; its use causes no further report."""

    def __repr__(self) -> str:
        return "POISON"


POISON = Poison()


@dataclass(frozen=True)
class Static:
    """A `Static` is the operand for a Python object that is known at compile time.

    Attributes:
        value: the Python object that is known.
        hint: name of the object in the program, from which names in the IR are made.
    """

    value: Any
    hint: str = ""


@dataclass(frozen=True)
class Pack:
    """A `Pack` is a tuple of operands; it exists only at compile time."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class MatrixValue:
    """A `MatrixValue` is a vector or matrix operand: one scalar operand for each entry.

    Attributes:
        shape: (n,) or (n, m).
        items: entries row by row, all of them values of one type or all of them numbers.
    """

    shape: tuple[int, ...]
    items: tuple[Operand, ...]

    def __post_init__(self) -> None:
        if len(self.items) > ENTRIES:
            check_entries(self.shape)


@dataclass(frozen=True)
class StructValue:
    """A `StructValue` is a struct: an operand for each member, converted to the type of the member."""

    type: StructType
    members: Mapping[str, Operand]


@dataclass(frozen=True)
class ShapeOf:
    """A `ShapeOf` is the attribute `x.shape` of a field, whose extents the kernel reads at launch."""

    field: AnyField
    hint: str


@dataclass(frozen=True)
class Intrinsic:
    """An `Intrinsic` is a callable that the compiler lowers itself, such as a bound method or a constructor."""

    name: str
    call: Callable[[Tracer, ast.Call], Operand]


Operand = Value | Static | Pack | MatrixValue | StructValue | Poison


def static_operand(value: Any, hint: str = "") -> Operand:
    """Return a Python object as an operand; an `OpaqueValue` gives the operand for which it stands.

    NumPy scalars count as Python numbers.
    """
    if isinstance(value, OpaqueValue):
        found: Operand = value.operand
        return found
    # Kernels treat a NumPy scalar like the Python number with the same value.
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    return Static(value, hint)


def number_of(operand: Operand) -> Number | None:
    """Return the constant Python number that an operand holds, or None if it holds none."""
    if isinstance(operand, Static) and isinstance(operand.value, (bool, int, float)):
        return operand.value
    return None


def integer_of(operand: Operand) -> int | None:
    """Return the constant Python integer (not boolean) that an operand holds, or None if it holds none."""
    found = number_of(operand)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


UNKNOWN = object()
"""The function `known_object` returns this object for an operand that only the launch knows."""


def known_object(operand: Operand) -> Any:
    """Return the Python object that an operand is at compile time, or UNKNOWN if only a launch knows it."""
    if isinstance(operand, Static):
        if not isinstance(operand.value, ShapeOf):
            return operand.value
        shape = operand.value.field.shape
        return UNKNOWN if isinstance(shape, LaunchShape) else shape
    if isinstance(operand, (Pack, MatrixValue)):
        items = tuple(known_object(item) for item in operand.items)
        if any(item is UNKNOWN for item in items):
            return UNKNOWN
        return items if isinstance(operand, Pack) else np.reshape(items, operand.shape)
    return UNKNOWN


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape in words, such as `a vector of 3` or `a 2×3 matrix`."""
    if len(shape) == 1:
        return f"a vector of {shape[0]}"
    return f"a {shape[0]}×{shape[1]} matrix"


def describe(operand: Operand) -> str:
    """Return a phrase for error messages that says what an operand is, such as its type."""
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
    (ViewOperand, "the view"),
    (Intrinsic, "the function"),
    (np.ndarray, "the NumPy array"),
    (ModuleType, "the module"),
    ((tuple, list), "a sequence"),
)
