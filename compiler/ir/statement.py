"""This module defines values, and how a class of statements is declared.

A statement is a frozen dataclass. Its `FORM` is its text: printer and parser both read it. The metadata of its fields
(result, operand, block, attribute) drives walking, cloning and checking. The statements themselves are in nodes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from .types import Scalar


class Value:
    """A value is the result of one execution of a statement: an id, unique in its kernel, and a type."""

    __slots__ = ("id", "type")

    def __init__(self, id: int, type: Scalar) -> None:
        self.id = id
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.id == other.id and self.type == other.type

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"%{self.id}: {self.type}"


def _role(role: str, **kwargs: Any) -> Any:
    return field(metadata={"role": role}, **kwargs)


def result(**kwargs: Any) -> Any:
    """Declare a dataclass attribute for the value that a statement defines; None marks an optional one."""
    return _role("result", **kwargs)


def operand(**kwargs: Any) -> Any:
    """Declare a dataclass attribute for a value, or a tuple of values, that a statement reads."""
    return _role("operand", **kwargs)


def block(**kwargs: Any) -> Any:
    """Declare a dataclass attribute that holds a nested block of a statement."""
    return _role("block", **kwargs)


@dataclass(frozen=True)
class Stmt:
    """This class is the base of all statements of the IR.

    Attributes:
        FORM: text of the statement with placeholders for its fields; see `form`.
        loc: index into the kernel's location table; it counts neither for equality nor for the text.
    """

    FORM: ClassVar[str] = ""
    loc: int = field(default=0, compare=False, kw_only=True, repr=False)


Block = tuple[Stmt, ...]
S = TypeVar("S", bound=Stmt)


@dataclass_transform(frozen_default=True, field_specifiers=(result, operand, block))
def statement(cls: type[S]) -> type[S]:
    """Make a class of statements a frozen dataclass, and return it."""
    return dataclass(frozen=True)(cls)


def field_roles(cls: type[Stmt]) -> tuple[tuple[str, str], ...]:
    """Return name and role of each field of a statement class that has a role: result, operand or block."""
    return tuple((f.name, f.metadata["role"]) for f in fields(cls) if "role" in f.metadata)
