"""What an expression evaluates to while it is traced.

An operand is a value of the IR, an object known at compile time, a tuple of operands, or poison. A number known at
compile time stays one until a statement needs it: it takes a type from where it is used, and is folded as in Python.
"""
from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ..ir.nodes import Value
from ..ir.types import Scalar
from .protocols import FieldLike, LaunchShape, is_field

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
class ShapeOf:
    """`x.shape`: its extents are read at launch."""

    field: FieldLike
    hint: str


Operand = Value | Static | Pack | Poison


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
    if isinstance(operand, Pack):
        items = tuple(known(item) for item in operand.items)
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    return UNKNOWN


def describe(operand: Operand) -> str:
    """The operand in words, for messages."""
    if isinstance(operand, Value):
        return f"a value of type {operand.type}"
    if isinstance(operand, Pack):
        return "a tuple"
    if not isinstance(operand, Static):
        return "a faulty value"
    value = operand.value
    name = f" `{operand.hint}`" if operand.hint else ""
    if is_field(value):
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
    (ModuleType, "the module"),
    ((tuple, list), "a sequence"),
)
