"""The kinds of nodes of the program model, and the expressions of the user's language.

One class for each thing a user can write; the IR is another language and appears nowhere here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from ...compiler.ir.types import Scalar


@dataclass(frozen=True)
class Expr:
    """An expression."""


@dataclass(frozen=True)
class Stmt:
    """A statement."""


@dataclass(frozen=True)
class Domain:
    """What a `for` runs over."""


T = TypeVar("T", bound=Expr | Stmt | Domain)
EXPRESSIONS: list[type[Expr]] = []
STATEMENTS: list[type[Stmt]] = []
DOMAINS: list[type[Domain]] = []


@dataclass_transform(frozen_default=True)
def enter(cls: type[T]) -> type[T]:
    """Freeze a class of the model and enter it in the list of its kind."""
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
    """A number of the program text: it has no type until it meets one."""

    value: bool | int | float


@enter
class Name(Expr):
    """A local, a loop index, an argument or a parameter."""

    name: str


@enter
class Element(Expr):
    """`x[i, j]`; of a field of rank 0 `x[None]`. An index vector counts as its entries."""

    field: str
    indices: tuple[Expr, ...] = ()


@enter
class Extent(Expr):
    """`x.shape[axis]`."""

    field: str
    axis: int


@enter
class Unary(Expr):
    """`-a`, `+a`, `~a`, `not a`."""

    op: str
    arg: Expr


@enter
class Binary(Expr):
    """An arithmetic, bit or shift operator, by its symbol."""

    op: str
    left: Expr
    right: Expr


@enter
class Compare(Expr):
    """A chain `a < b <= c`: one operator fewer than operands."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


@enter
class Logic(Expr):
    """`a and b and ...` or `a or b or ...`."""

    op: str
    operands: tuple[Expr, ...]


@enter
class Choice(Expr):
    """`then if condition else orelse`."""

    condition: Expr
    then: Expr
    orelse: Expr


@enter
class Call(Expr):
    """A function of the language by its name; at least one argument is no number of the text.

    dtype: what `floor`, `ceil` and `round` take as second argument.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: Scalar | None = None


@enter
class Cast(Expr):
    """spelling: 'type' is `f64(a)`, 'cast' is `cast(a, f64)`; 'int', 'float' and 'bool' are Python's, without dtype."""

    arg: Expr
    dtype: Scalar | None
    spelling: str = "type"


@enter
class BitCast(Expr):
    """`bit_cast(a, dtype)`."""

    arg: Expr
    dtype: Scalar


@enter
class Random(Expr):
    """`random()` or `random(dtype)`; `randn` likewise."""

    dtype: Scalar | None = None
    function: str = "random"


@enter
class AtomicCall(Expr):
    """`atomic_add(x[i], value)`: gives the old value. op is what follows `atomic_`; target: an element or its part.

    expected: `atomic_cas(x[i], expected, value)`.
    """

    op: str
    target: Expr
    value: Expr
    expected: Expr | None = None


@enter
class Invoke(Expr):
    """A call of one of the program's own functions."""

    function: str
    args: tuple[Expr, ...] = ()


@enter
class Walrus(Expr):
    """`(name := value)`."""

    name: str
    value: Expr
