"""The program model describes a kernel of the user's language, its fields and its inputs as frozen plain data.

This module holds domains, statements and programs, and exports the expressions of `syntax`, `vectors` and `structs`.
Invariant: a program holds everything that a run of it needs, so it can be stored, rendered anywhere and reduced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....compiler.ir.types import Scalar, adjoint_type, f32
from .structs import Make as Make
from .structs import Member as Member
from .syntax import DOMAINS as DOMAINS
from .syntax import EXPRESSIONS as EXPRESSIONS
from .syntax import STATEMENTS as STATEMENTS
from .syntax import AtomicCall as AtomicCall
from .syntax import Binary as Binary
from .syntax import BitCast as BitCast
from .syntax import Call as Call
from .syntax import Cast as Cast
from .syntax import Choice as Choice
from .syntax import Compare as Compare
from .syntax import Domain as Domain
from .syntax import Element as Element
from .syntax import Expr as Expr
from .syntax import Extent as Extent
from .syntax import Invoke as Invoke
from .syntax import Logic as Logic
from .syntax import Name as Name
from .syntax import Number as Number
from .syntax import Random as Random
from .syntax import Stmt as Stmt
from .syntax import Unary as Unary
from .syntax import Walrus as Walrus
from .syntax import enter as enter
from .vectors import Comprehension as Comprehension
from .vectors import Convert as Convert
from .vectors import Filled as Filled
from .vectors import Matrix as Matrix
from .vectors import Method as Method
from .vectors import Part as Part
from .vectors import PlaceExpr as PlaceExpr
from .vectors import Slice as Slice
from .vectors import Swizzle as Swizzle
from .vectors import Vector as Vector
from .vectors import root as root

# ---- domains ----------------------------------------------------------------------------------------------------


@enter
class Range(Domain):
    """Represent `range(end)`, `range(begin, end)`, `range(begin, end, step)` and `reversed(...)` of these.

    Attributes:
        step: The step; if the launch gives the step, the value that was drawn for it.
        stride: The argument of the kernel that is the step if only the launch knows it, else empty.
    """

    begin: Expr | None
    end: Expr
    step: int = 1
    reverse: bool = False
    stride: str = ""


@enter
class Box(Domain):
    """Represent `ndrange(...)`; an axis is a pair (begin or None, end).

    Attributes:
        order: The keyword `axes`: the number of the axis of each nested loop, outermost first; () without keyword.
    """

    axes: tuple[tuple[Expr | None, Expr], ...]
    order: tuple[int, ...] = ()


@enter
class Over(Domain):
    """Represent the loop domain of `for i, j in x`: all indices of the field x.

    With a single name for several axes, `for I in x`, the name I means the vector of indices.
    """

    field: str


@enter
class Grouped(Domain):
    """Represent `grouped(x)` and `grouped(ndrange(...))`, whose one index is the vector of all indices."""

    domain: Over | Box


@enter
class Unrolled(Domain):
    """Represent `static(range(begin, end, step))`, which repeats the body for each number."""

    begin: int
    end: int
    step: int = 1


# ---- statements -------------------------------------------------------------------------------------------------


@enter
class Assign(Stmt):
    """Represent `a = e`, `a, b = e, f`, and `a, b = call` where the call returns a value for each target."""

    targets: tuple[PlaceExpr, ...]
    values: tuple[Expr, ...]


@enter
class Declare(Stmt):
    """Represent `name: dtype = value`."""

    name: str
    dtype: Scalar
    value: Expr


@enter
class Augment(Stmt):
    """Represent `a op= value`, which is atomic on an element if the IR has an atomic for the operator."""

    target: PlaceExpr
    op: str
    value: Expr


@enter
class If(Stmt):
    """Represent `if`; an alternative that consists of one `If` is written as `elif`."""

    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@enter
class For(Stmt):
    """Represent a `for` loop: parallel if it is in no block of the kernel and `serialize` is False, else serial."""

    indices: tuple[str, ...]
    domain: Domain
    body: tuple[Stmt, ...]
    serialize: bool = False


@enter
class While(Stmt):
    """Represent `while condition`."""

    condition: Expr
    body: tuple[Stmt, ...]


@enter
class Break(Stmt):
    """Represent `break`."""


@enter
class Continue(Stmt):
    """Represent `continue`, which ends the iteration in a parallel loop."""


@enter
class Return(Stmt):
    """Represent `return` with the values of a function, or with the result of a kernel that has a result."""

    values: tuple[Expr, ...] = ()


@enter
class Assert(Stmt):
    """Represent `assert condition, message`."""

    condition: Expr
    message: str


@enter
class Evaluate(Stmt):
    """Represent an expression that is evaluated for its effect."""

    value: Expr


@enter
class Pass(Stmt):
    """Represent `pass`."""


StmtBlock = tuple[Stmt, ...]


# ---- programs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """Represent the name and type of a function parameter, a kernel argument or a struct member.

    Attributes:
        dtype: Scalar type; None for a parameter that takes the type of its argument, or for a struct.
        shape: (n,) for a vector, else ().
        struct: Name of the type if this is a struct, else empty.
    """

    name: str
    dtype: Scalar | None = None
    shape: tuple[int, ...] = ()
    struct: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the names of the scalars that the argument consists of: `v.0`, `v.1` and so on for a vector."""
        return tuple(f"{self.name}.{k}" for k in range(self.shape[0])) if self.shape else (self.name,)


@dataclass(frozen=True)
class StructType:
    """Represent a struct type with its members in order.

    Attributes:
        decorated: True if it is written as a class with `@dataclass`, False if by `types.struct`.
    """

    name: str
    members: tuple[Param, ...]
    decorated: bool = False

    def member(self, name: str) -> Param:
        """Return the member with this name. Raise KeyError if the struct type has none."""
        return {p.name: p for p in self.members}[name]


@dataclass(frozen=True)
class Function:
    """Represent a function of the program.

    Attributes:
        result: Scalar type in the annotation of the result, or None.
        shape: Shape of the annotated result if it is a vector.
        decorated: False if it is a plain function of Python, without `@func`.
    """

    name: str
    params: tuple[Param, ...]
    body: StmtBlock
    result: Scalar | None = None
    shape: tuple[int, ...] = ()
    decorated: bool = True


@dataclass(frozen=True)
class Kernel:
    """Represent the kernel of a program as plain data: name, body, functions that it may call, type of its result.

    Attributes:
        functions: Functions that the kernel may call, each after the functions that it calls itself.
        result: Type of the result that the kernel returns, or None.
    """

    name: str
    body: StmtBlock
    functions: tuple[Function, ...] = ()
    result: Scalar | None = None


@dataclass(frozen=True)
class View:
    """Represent `name: BufferView`: `size` elements of an array of one axis, from element `first` on."""

    name: str
    first: int
    size: int


@dataclass(frozen=True)
class Field:
    """Represent an array of a program, with zero to two axes: a field, an array argument, or a struct member.

    Attributes:
        name: Its name; `P.mass` for the member `mass` of a field P of structs.
        element: Shape of the vectors or matrices that it holds.
        argument: True if the array is given at the call.
        struct: Type of the structs of which this array is a member, else empty.
        offset: The first index of each axis; () for zeros.
        views: Parts of the array that the kernel gets in place of the array itself.
    """

    name: str
    dtype: Scalar
    shape: tuple[int, ...] = ()
    grad: bool = False
    element: tuple[int, ...] = ()
    argument: bool = False
    struct: str = ""
    offset: tuple[int, ...] = ()
    views: tuple[View, ...] = ()

    @property
    def owner(self) -> str:
        """Return the name of the field in the kernel; for a member of a field of structs, the name of that field."""
        return self.name.partition(".")[0]

    @property
    def names(self) -> frozenset[str]:
        """Return the names by which the kernel accesses the array: its own name, or those of its views."""
        return frozenset(v.name for v in self.views) if self.views else frozenset({self.owner})

    @property
    def storage(self) -> tuple[int, ...]:
        """Return the shape of the NumPy array that stores the field, with the axes of an element last."""
        return self.shape + self.element


Content = tuple[bool | int | float, ...]
RESULT = "$return.0"
"""Name of the array without axes that holds the result of a kernel."""


@dataclass(frozen=True)
class Inputs:
    """Hold the initial contents, scalar arguments and cotangents of one launch as flat tuples by name.

    Attributes:
        arrays: Initial contents of all fields.
        scalars: Arguments of the kernel.
        seeds: Cotangents of the fields that have a gradient.
    """

    arrays: tuple[tuple[str, Content], ...]
    scalars: tuple[tuple[str, bool | int | float], ...] = ()
    seeds: tuple[tuple[str, Content], ...] = ()


@dataclass(frozen=True)
class Program:
    """Represent a complete program: a kernel, its struct types, fields, arguments and input values.

    Attributes:
        default_fp: Type of real literals.
        profile: The strategy that drew it: 'smooth' has bounded values and a gradient, 'wild' is the whole language.
        structs: Struct types, each after the types of its members.
    """

    kernel: Kernel
    fields: tuple[Field, ...]
    arguments: tuple[Param, ...]
    inputs: Inputs
    default_fp: Scalar = f32
    profile: str = "smooth"
    structs: tuple[StructType, ...] = ()

    def struct(self, name: str) -> StructType:
        """Return the struct type with this name. Raise KeyError if the program has none."""
        return {s.name: s for s in self.structs}[name]

    def field(self, name: str) -> Field:
        """Return the field with this name. Raise KeyError if the program has none."""
        for found in self.fields:
            if found.name == name:
                return found
        raise KeyError(name)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return new arrays with the initial contents of all fields, and a zero for the result of the kernel."""
        types = {f.name: f.dtype for f in self.fields}
        found = {name: self._array(name, content, types[name]) for name, content in self.inputs.arrays}
        if self.kernel.result is not None:
            found[RESULT] = np.zeros((), self.kernel.result.dtype)
        return found

    def scalars(self) -> dict[str, bool | int | float]:
        """Return the scalar arguments of the launch by name, with offset and size of each view.

        A vector v has `v.0`, `v.1` and so on; a view v has `v.offset` and `v.size`.
        """
        found = dict(self.inputs.scalars)
        for view in (v for f in self.fields for v in f.views):
            found |= {f"{view.name}.offset": view.first, f"{view.name}.size": view.size}
        return found

    def seeds(self) -> dict[str, np.ndarray]:
        """Return new arrays with the cotangents of the final contents, by the name of the primal field."""
        types = {f.name: adjoint_type(f.dtype) for f in self.fields}
        return {name: self._array(name, content, types[name]) for name, content in self.inputs.seeds}

    def _array(self, name: str, content: Content, dtype: Scalar) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.array(content, dtype.dtype).reshape(self.field(name).storage)
