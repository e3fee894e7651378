"""This module defines the base classes of the program model's nodes, and the scalar expressions of the language.

There is one class for each construct that a user can write. The IR is another language and appears nowhere in this
module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from ....compiler.ir.types import Scalar


@dataclass(frozen=True)
class Expr:
    """Represent an expression of the user's language; base class of all expressions."""


@dataclass(frozen=True)
class Stmt:
    """Represent a statement of the user's language; base class of all statements."""


@dataclass(frozen=True)
class Domain:
    """Represent the indices that a `for` loop runs over; base class of all loop domains."""


T = TypeVar("T", bound=Expr | Stmt | Domain)
EXPRESSIONS: list[type[Expr]] = []
STATEMENTS: list[type[Stmt]] = []
DOMAINS: list[type[Domain]] = []


@dataclass_transform(frozen_default=True)
def enter(cls: type[T]) -> type[T]:
    """Make a node class a frozen dataclass and add it to the list EXPRESSIONS, STATEMENTS or DOMAINS."""
    made = dataclass(frozen=True)(cls)
    if issubclass(made, Expr):
        EXPRESSIONS.append(made)
    elif issubclass(made, Stmt):
        STATEMENTS.append(made)
    elif issubclass(made, Domain):
        DOMAINS.append(made)
    return made


# ---- expressions ------------------------------------------------------------------------------------------------


@enter
class Number(Expr):
    """Represent a literal number, whose type follows from the other operand or from its use."""

    value: bool | int | float


@enter
class Name(Expr):
    """Represent a use of a name: of a local, a loop index, an argument or a parameter."""

    name: str


@enter
class Element(Expr):
    """Represent `x[i, j]`, or `x[None]` for a field without axes; an index vector counts as its entries."""

    field: str
    indices: tuple[Expr, ...] = ()


@enter
class Extent(Expr):
    """Represent `x.shape[axis]`, the extent of an axis."""

    field: str
    axis: int


@enter
class Unary(Expr):
    """Represent `-a`, `+a`, `~a` or `not a`."""

    op: str
    arg: Expr


@enter
class Binary(Expr):
    """Represent a binary operator, given by its symbol, with its two operands."""

    op: str
    left: Expr
    right: Expr


@enter
class Compare(Expr):
    """Represent a chain such as `a < b <= c`, which has one operator fewer than operands."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


@enter
class Logic(Expr):
    """Represent `a and b and ...` or `a or b or ...`."""

    op: str
    operands: tuple[Expr, ...]


@enter
class Choice(Expr):
    """Represent `then if condition else orelse`."""

    condition: Expr
    then: Expr
    orelse: Expr


@enter
class Call(Expr):
    """Represent a call of a built-in function of the language, with at least one argument that is no literal.

    Attributes:
        dtype: Second argument of `floor`, `ceil` and `round`, or None.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: Scalar | None = None


@enter
class Cast(Expr):
    """Represent a conversion of a value to another type.

    Attributes:
        dtype: The new type; None for a spelling of Python.
        spelling: 'type' writes `f64(a)`, 'cast' writes `cast(a, f64)`; 'int', 'float' and 'bool' are Python's
            functions.
    """

    arg: Expr
    dtype: Scalar | None
    spelling: str = "type"


@enter
class BitCast(Expr):
    """Represent `bit_cast(a, dtype)`, which reads the bits of a value as another type."""

    arg: Expr
    dtype: Scalar


@enter
class Random(Expr):
    """Represent `random()` or `random(dtype)`, and `randn` with the same arguments."""

    dtype: Scalar | None = None
    function: str = "random"


@enter
class AtomicCall(Expr):
    """Represent an atomic function such as `atomic_add(x[i], value)`, which returns the old value.

    Attributes:
        op: The part of the name after `atomic_`.
        target: An element or a part of an element.
        expected: The second argument of `atomic_cas(x[i], expected, value)`, or None.
    """

    op: str
    target: Expr
    value: Expr
    expected: Expr | None = None


@enter
class Invoke(Expr):
    """Represent a call of one of the program's own functions."""

    function: str
    args: tuple[Expr, ...] = ()


@enter
class Walrus(Expr):
    """Represent `(name := value)`."""

    name: str
    value: Expr
