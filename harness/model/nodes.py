"""The program model: a kernel of the user's language, its fields and its inputs, as frozen plain data.

Domains, statements and programs are here, expressions in `syntax` and `vectors`; everything is imported from here.
Invariant: a program says everything that a run of it needs, so it can be stored, rendered anywhere and reduced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...compiler.ir.types import Scalar, adjoint_type, f32
from .structs import Make, Member  # noqa: F401
from .syntax import (  # noqa: F401  (one vocabulary, in four files)
    DOMAINS,
    EXPRESSIONS,
    STATEMENTS,
    AtomicCall,
    Binary,
    BitCast,
    Call,
    Cast,
    Choice,
    Compare,
    Domain,
    Element,
    Expr,
    Extent,
    Invoke,
    Logic,
    Name,
    Number,
    Random,
    Stmt,
    Unary,
    Walrus,
    enter,
)
from .vectors import Comprehension, Convert, Filled, Matrix, Method, Part, Place, Slice, Swizzle, Vector, root  # noqa: F401

# ---- domains ----------------------------------------------------------------------------------------------------


@enter
class Range(Domain):
    """`range(end)`, `range(begin, end)`, `range(begin, end, step)`; `reversed(...)` of it.

    stride: the argument of the kernel that is the step, if the launch knows it alone; `step` is what it was drawn as.
    """

    begin: Expr | None
    end: Expr
    step: int = 1
    reverse: bool = False
    stride: str = ""


@enter
class Box(Domain):
    """`ndrange(...)`: for each axis (begin or None, end)."""

    axes: tuple[tuple[Expr | None, Expr], ...]


@enter
class Over(Domain):
    """`for i, j in x`; with one name for several axes `for I in x`, where I is the vector of indices."""

    field: str


@enter
class Grouped(Domain):
    """`grouped(x)`, `grouped(ndrange(...))`: the one index is the vector of all indices."""

    domain: Over | Box


@enter
class Unrolled(Domain):
    """`static(range(begin, end, step))`: the body once for each number."""

    begin: int
    end: int
    step: int = 1


# ---- statements -------------------------------------------------------------------------------------------------


@enter
class Assign(Stmt):
    """`a = e`; `a, b = e, f`; `a, b = call` where the call gives as many values as there are targets."""

    targets: tuple[Place, ...]
    values: tuple[Expr, ...]


@enter
class Declare(Stmt):
    """`name: dtype = value`."""

    name: str
    dtype: Scalar
    value: Expr


@enter
class Augment(Stmt):
    """`a op= value`; on an element it is atomic where there is such an atomic."""

    target: Place
    op: str
    value: Expr


@enter
class If(Stmt):
    """`if`; an alternative that is one `If` is written `elif`."""

    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@enter
class For(Stmt):
    """Parallel outside all blocks of the kernel unless `serialize`, else serial."""

    indices: tuple[str, ...]
    domain: Domain
    body: tuple[Stmt, ...]
    serialize: bool = False


@enter
class While(Stmt):
    """`while condition`."""

    condition: Expr
    body: tuple[Stmt, ...]


@enter
class Break(Stmt):
    """`break`."""


@enter
class Continue(Stmt):
    """`continue`; in a parallel loop it ends the iteration."""


@enter
class Return(Stmt):
    """`return` with the values of a function; in a kernel with its result, if it has one."""

    values: tuple[Expr, ...] = ()


@enter
class Assert(Stmt):
    """`assert condition, message`."""

    condition: Expr
    message: str


@enter
class Evaluate(Stmt):
    """An expression for its effect."""

    value: Expr


@enter
class Pass(Stmt):
    """`pass`."""


Block = tuple[Stmt, ...]


# ---- programs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """A parameter of a function (dtype None: as it is called), an argument of the kernel or a member of a struct.

    shape: of a vector (n,). struct: the name of its type, if it is a struct.
    """

    name: str
    dtype: Scalar | None = None
    shape: tuple[int, ...] = ()
    struct: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of its numbers at a launch."""
        return tuple(f"{self.name}.{k}" for k in range(self.shape[0])) if self.shape else (self.name,)


@dataclass(frozen=True)
class StructType:
    """Members in order. decorated: written as a class with `@dataclass`, else by `types.struct`."""

    name: str
    members: tuple[Param, ...]
    decorated: bool = False

    def member(self, name: str) -> Param:
        """The member of this name. Raises KeyError."""
        return {p.name: p for p in self.members}[name]


@dataclass(frozen=True)
class Function:
    """A `@func`. result: the annotation of its result; shape: of the vector that it is."""

    name: str
    params: tuple[Param, ...]
    body: Block
    result: Scalar | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """The body of the kernel, and the functions it may call, each after those it calls itself. result: its type."""

    name: str
    body: Block
    functions: tuple[Function, ...] = ()
    result: Scalar | None = None


@dataclass(frozen=True)
class View:
    """`name: BufferView`: so many elements of an array of one axis, from this one on."""

    name: str
    first: int
    size: int


@dataclass(frozen=True)
class Field:
    """An array: rank 0 to 2. element: the shape of the vectors or matrices it holds. argument: given at the call.

    struct: the type of the structs of which this is a member; the name is then `P.mass` of the field P. offset: the
    first index of each axis, () for zeros. views: the kernel gets these parts of the array and not the array itself.
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
        """What the kernel calls the field that this is, or is a member of."""
        return self.name.partition(".")[0]

    @property
    def names(self) -> frozenset[str]:
        """What the kernel may call it."""
        return frozenset(v.name for v in self.views) if self.views else frozenset({self.owner})

    @property
    def storage(self) -> tuple[int, ...]:
        """The shape of its numbers, those of an element last."""
        return self.shape + self.element


Content = tuple[bool | int | float, ...]
RESULT = "$return.0"
"""The array of no axes that holds the result of a kernel."""


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
    default_fp: the type of real literals. structs: types, each after those of its members.
    """

    kernel: Kernel
    fields: tuple[Field, ...]
    arguments: tuple[Param, ...]
    inputs: Inputs
    default_fp: Scalar = f32
    profile: str = "smooth"
    structs: tuple[StructType, ...] = ()

    def struct(self, name: str) -> StructType:
        """The type of this name. Raises KeyError."""
        return {s.name: s for s in self.structs}[name]

    def field(self, name: str) -> Field:
        """The field of this name. Raises KeyError."""
        for found in self.fields:
            if found.name == name:
                return found
        raise KeyError(name)

    def arrays(self) -> dict[str, np.ndarray]:
        """New arrays with the initial content of all fields, each of its field's dtype and shape; zero as result."""
        types = {f.name: f.dtype for f in self.fields}
        found = {name: self._array(name, content, types[name]) for name, content in self.inputs.arrays}
        if self.kernel.result is not None:
            found[RESULT] = np.zeros((), self.kernel.result.dtype)
        return found

    def scalars(self) -> dict[str, bool | int | float]:
        """The numbers of the launch by name; of a vector `v.0`, `v.1`, ..., of a view `v.offset` and `v.size`."""
        found = dict(self.inputs.scalars)
        for view in (v for f in self.fields for v in f.views):
            found |= {f"{view.name}.offset": view.first, f"{view.name}.size": view.size}
        return found

    def seeds(self) -> dict[str, np.ndarray]:
        """New arrays with the cotangents of the final content, by the name of the primal field."""
        types = {f.name: adjoint_type(f.dtype) for f in self.fields}
        return {name: self._array(name, content, types[name]) for name, content in self.inputs.seeds}

    def _array(self, name: str, content: Content, dtype: Scalar) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.array(content, dtype.dtype).reshape(self.field(name).storage)
