"""The program model: a kernel of the user's language, its fields and its inputs, as frozen plain data.

One class for each thing a user can write; the IR is another language and appears nowhere here. Invariant: a program
says everything that a run of it needs, so it can be stored, rendered anywhere and reduced.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

import numpy as np

from ...compiler.ir.types import Scalar, f32


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
def _enter(cls: type[T]) -> type[T]:
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


@_enter
class Number(Expr):
    """A number of the program text: it has no type until it meets one."""

    value: bool | int | float


@_enter
class Name(Expr):
    """A local, a loop index, an argument or a parameter."""

    name: str


@_enter
class Element(Expr):
    """`x[i, j]`; of a field of rank 0 `x[None]`."""

    field: str
    indices: tuple[Expr, ...] = ()


@_enter
class Extent(Expr):
    """`x.shape[axis]`."""

    field: str
    axis: int


@_enter
class Unary(Expr):
    """`-a`, `+a`, `~a`, `not a`."""

    op: str
    arg: Expr


@_enter
class Binary(Expr):
    """An arithmetic, bit or shift operator, by its symbol."""

    op: str
    left: Expr
    right: Expr


@_enter
class Compare(Expr):
    """A chain `a < b <= c`: one operator fewer than operands."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


@_enter
class Logic(Expr):
    """`a and b and ...` or `a or b or ...`."""

    op: str
    operands: tuple[Expr, ...]


@_enter
class Choice(Expr):
    """`then if condition else orelse`."""

    condition: Expr
    then: Expr
    orelse: Expr


@_enter
class Call(Expr):
    """A function of the language by its name; at least one argument is no number of the text.

    dtype: what `floor`, `ceil` and `round` take as second argument.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: Scalar | None = None


@_enter
class Cast(Expr):
    """spelling: 'type' is `f64(a)`, 'cast' is `cast(a, f64)`; 'int', 'float' and 'bool' are Python's, without dtype."""

    arg: Expr
    dtype: Scalar | None
    spelling: str = "type"


@_enter
class BitCast(Expr):
    """`bit_cast(a, dtype)`."""

    arg: Expr
    dtype: Scalar


@_enter
class Random(Expr):
    """`random()` or `random(dtype)`."""

    dtype: Scalar | None = None


@_enter
class AtomicCall(Expr):
    """`atomic_add(x[i], value)`: gives the old value. op is the part after `atomic_`."""

    op: str
    target: Element
    value: Expr


@_enter
class Invoke(Expr):
    """A call of one of the program's own functions."""

    function: str
    args: tuple[Expr, ...] = ()


@_enter
class Walrus(Expr):
    """`(name := value)`."""

    name: str
    value: Expr


Place = Name | Element


# ---- domains ----------------------------------------------------------------------------------------------------


@_enter
class Range(Domain):
    """`range(end)`, `range(begin, end)`, `range(begin, end, step)`; `reversed(...)` of it."""

    begin: Expr | None
    end: Expr
    step: int = 1
    reverse: bool = False


@_enter
class Box(Domain):
    """`ndrange(...)`: for each axis (begin or None, end)."""

    axes: tuple[tuple[Expr | None, Expr], ...]


@_enter
class Over(Domain):
    """`for i, j in x`."""

    field: str


@_enter
class Unrolled(Domain):
    """`static(range(begin, end, step))`: the body once for each number."""

    begin: int
    end: int
    step: int = 1


# ---- statements -------------------------------------------------------------------------------------------------


@_enter
class Assign(Stmt):
    """`a = e`; `a, b = e, f`; `a, b = call` where the call gives as many values as there are targets."""

    targets: tuple[Place, ...]
    values: tuple[Expr, ...]


@_enter
class Declare(Stmt):
    """`name: dtype = value`."""

    name: str
    dtype: Scalar
    value: Expr


@_enter
class Augment(Stmt):
    """`a op= value`; on an element it is atomic where there is such an atomic."""

    target: Place
    op: str
    value: Expr


@_enter
class If(Stmt):
    """`if`; an alternative that is one `If` is written `elif`."""

    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@_enter
class For(Stmt):
    """Parallel outside all blocks of the kernel unless `serialize`, else serial."""

    indices: tuple[str, ...]
    domain: Domain
    body: tuple[Stmt, ...]
    serialize: bool = False


@_enter
class While(Stmt):
    """`while condition`."""

    condition: Expr
    body: tuple[Stmt, ...]


@_enter
class Break(Stmt):
    """`break`."""


@_enter
class Continue(Stmt):
    """`continue`; in a parallel loop it ends the iteration."""


@_enter
class Return(Stmt):
    """`return` with the values of a function; without any in a kernel."""

    values: tuple[Expr, ...] = ()


@_enter
class Assert(Stmt):
    """`assert condition, message`."""

    condition: Expr
    message: str


@_enter
class Evaluate(Stmt):
    """An expression for its effect."""

    value: Expr


@_enter
class Pass(Stmt):
    """`pass`."""


Block = tuple[Stmt, ...]


# ---- programs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """A parameter of a function (dtype None: as it is called) or a scalar argument of the kernel."""

    name: str
    dtype: Scalar | None = None


@dataclass(frozen=True)
class Function:
    """A `@func`. result: the annotation of its result."""

    name: str
    params: tuple[Param, ...]
    body: Block
    result: Scalar | None = None


@dataclass(frozen=True)
class Kernel:
    """The body of the kernel, and the functions it may call, each after those it calls itself."""

    name: str
    body: Block
    functions: tuple[Function, ...] = ()


@dataclass(frozen=True)
class Field:
    """An array: rank 0 to 2."""

    name: str
    dtype: Scalar
    shape: tuple[int, ...] = ()
    grad: bool = False


Content = tuple[bool | int | float, ...]


@dataclass(frozen=True)
class Inputs:
    """Numbers in row-major order, by name: initial content of all fields, arguments, cotangents of fields with grad."""

    arrays: tuple[tuple[str, Content], ...]
    scalars: tuple[tuple[str, bool | int | float], ...] = ()
    seeds: tuple[tuple[str, Content], ...] = ()


@dataclass(frozen=True)
class Program:
    """A kernel with all that a run of it needs.

    profile: which strategy drew it: 'smooth' has bounded values and a gradient, 'wild' is the whole language.
    default_fp: the type of real literals.
    """

    kernel: Kernel
    fields: tuple[Field, ...]
    arguments: tuple[Param, ...]
    inputs: Inputs
    default_fp: Scalar = f32
    profile: str = "smooth"

    def field(self, name: str) -> Field:
        """The field of this name. Raises KeyError."""
        for found in self.fields:
            if found.name == name:
                return found
        raise KeyError(name)

    def arrays(self) -> dict[str, np.ndarray]:
        """New arrays with the initial content of all fields, each of its field's dtype and shape."""
        return {name: self._array(name, content) for name, content in self.inputs.arrays}

    def scalars(self) -> dict[str, bool | int | float]:
        """The arguments of the launch by name."""
        return dict(self.inputs.scalars)

    def seeds(self) -> dict[str, np.ndarray]:
        """New arrays with the cotangents of the final content, by the name of the primal field."""
        return {name: self._array(name, content) for name, content in self.inputs.seeds}

    def _array(self, name: str, content: Content) -> np.ndarray:
        field = self.field(name)
        with np.errstate(over="ignore"):
            return np.array(content, field.dtype.dtype).reshape(field.shape)
