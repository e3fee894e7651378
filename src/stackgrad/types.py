"""`sg.types`: element types of fields, arguments and locals: scalars, vectors, matrices, structs and array annotations.

Invariant: a public type object carries the frontend's type as `stackgrad_type`; Python's float, int and bool stay in it
until a kernel is traced or memory is made, when the defaults of `sg.init` say what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Unpack, dataclass_transform, overload

from . import primitive_types
from .annotations import annotated_element
from .compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, NdarrayType, StructType, Template
from .compiler.frontend.refused import Refused, refusal_of
from .compiler.ir.types import SCALARS, Scalar
from .dtypes import scalar_type
from .fields import MatrixField, MatrixNdarray, StructField, matrix_field, struct_field
from .fields.kinds import CompoundOptions, FieldOptions, Shape
from .ndarrays import matrix_ndarray
from .primitive_types import *  # noqa: F403 - the scalar types are names of this module too
from .usage import MatrixError, StructError
from .values import Matrix, Struct, Vector
from .values.makers import extent
from .values.struct import as_struct
from .values.struct_types import element_type, struct_type

template = Template
C = TypeVar("C", bound=type)


class MatrixSpec:
    """A vector or matrix type. Called, it makes a value; `field` and `ndarray` make memory of such elements."""

    __slots__ = (TYPE_ATTRIBUTE,)
    stackgrad_type: MatrixType

    def __init__(self, kind: MatrixType) -> None:
        self.stackgrad_type = kind

    @property
    def n(self) -> int:
        """Rows."""
        return self.stackgrad_type.shape[0]

    @property
    def m(self) -> int:
        """Columns; 1 of a vector."""
        return self.stackgrad_type.shape[1] if self.ndim == 2 else 1

    @property
    def ndim(self) -> int:
        """1 of a vector, 2 of a matrix."""
        return len(self.stackgrad_type.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n,) or (n, m)."""
        return self.stackgrad_type.shape

    @property
    def dtype(self) -> Scalar:
        """Type of the entries, under the present defaults."""
        return scalar_type(self.stackgrad_type.dtype)

    def __call__(self, *parts: Any) -> Matrix:
        """A value of all entries in order, given as numbers, vectors and sequences, or of one number for all.

        Raises MatrixError for another number of entries.
        """
        flat = list(_flat(parts))
        size = self.stackgrad_type.size
        if len(flat) == 1:
            flat *= size
        if len(flat) != size:
            raise MatrixError(f"{len(flat)} entries for {self.stackgrad_type}", f"give {size} entries, or one number")
        if self.ndim == 1:
            return Vector(flat, self.dtype)
        return Matrix([flat[row * self.m : (row + 1) * self.m] for row in range(self.n)], self.dtype)

    def field(self, shape: Shape | None = None, **options: Unpack[FieldOptions]) -> MatrixField:
        """A field of such elements; options as `sg.Vector.field`."""
        return matrix_field(self.shape, self.dtype, shape, **options)

    def ndarray(self, shape: Shape, needs_grad: bool = False) -> MatrixNdarray:
        """An ndarray of such elements."""
        return matrix_ndarray(self.shape, self.dtype, shape, needs_grad)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixSpec) and self.stackgrad_type == other.stackgrad_type

    def __hash__(self) -> int:
        return hash(self.stackgrad_type)

    def __repr__(self) -> str:
        kind = "vector" if self.ndim == 1 else "matrix"
        dtype = getattr(self.stackgrad_type.dtype, "name", getattr(self.stackgrad_type.dtype, "__name__", ""))
        return f"sg.types.{kind}({', '.join(map(str, self.shape))}, {dtype})"


class StructSpec:
    """A struct type. Called, it makes a value with members given by name or in order, missing ones 0."""

    def __init__(self, kind: StructType, home: type | None = None) -> None:
        self.stackgrad_type = kind
        self.__name__ = kind.name or "struct"
        self.__doc__ = home.__doc__ if home is not None else None
        self.__module__ = home.__module__ if home is not None else __name__

    @property
    def members(self) -> dict[str, Any]:
        """Member types by name, in order."""
        return dict(self.stackgrad_type.members)

    @property
    def methods(self) -> Mapping[str, Any]:
        """Methods by name."""
        return self.stackgrad_type.methods

    def __call__(self, *parts: Any, **named: Any) -> Struct:
        """A value. Raises StructError for unknown members and for values that do not fit."""
        if len(parts) == 1 and not named and isinstance(parts[0], (Struct, Mapping)):
            return as_struct(self.stackgrad_type, parts[0])
        names = self.stackgrad_type.names
        twice = [name for name in names[: len(parts)] if name in named]
        if len(parts) > len(names) or twice:
            given = f"{len(parts)} members in order and {', '.join(named) or 'none'} by name"
            raise StructError(given, f"members: {', '.join(names)}")
        return as_struct(self.stackgrad_type, {**dict(zip(names, parts)), **named})

    def field(
        self, shape: Shape | None = None, methods: Mapping[str, Any] | None = None, **options: Unpack[CompoundOptions]
    ) -> StructField:
        """A field of such structs; options: needs_grad, needs_dual, name, layout."""
        kind = self.stackgrad_type
        if methods:
            kind = StructType(kind.name, kind.members, {**kind.methods, **methods})
        return struct_field(kind, shape, **options)

    def __repr__(self) -> str:
        return f"<sg struct type {self.__name__}({', '.join(self.stackgrad_type.names)})>"


class NdarrayMaker(NdarrayType):
    """`sg.types.ndarray`: an annotation by itself, and called or subscripted one that says more."""

    def __call__(
        self,
        dtype: Any = None,
        ndim: int | None = None,
        element_dim: int | None = None,
        element_shape: tuple[int, ...] | None = None,
        field_dim: int | None = None,
        needs_grad: bool | None = None,
        boundary: str = "unsafe",
    ) -> Any:
        """The annotation of an array argument. What is None is taken from the argument. Raises FieldError."""
        element = annotated_element(dtype, boundary)
        if element_shape and isinstance(element, Scalar):
            element = MatrixType(tuple(element_shape), element)
        return NdarrayType(element, ndim if ndim is not None else field_dim, needs_grad)

    def __getitem__(self, given: Any) -> Any:
        """`sg.types.NDArray[sg.f32, 2]`."""
        return self(*given) if isinstance(given, tuple) else self(given)


ndarray = NDArray = NdarrayMaker()


def vector(n: int, dtype: Scalar | type) -> MatrixSpec:
    """The type of vectors of n entries. dtype: a scalar type, or float, int, bool for the defaults."""
    return MatrixSpec(MatrixType((extent(n, "n"),), element_type(dtype)))


def matrix(n: int, m: int, dtype: Scalar | type) -> MatrixSpec:
    """The type of matrices of n rows and m columns."""
    return MatrixSpec(MatrixType((extent(n, "n"), extent(m, "m")), element_type(dtype)))


def struct(**members: Any) -> StructSpec:
    """The type of structs with these members: types by name. `__struct_methods`: functions by name."""
    methods = members.pop("__struct_methods", {})
    return StructSpec(struct_type("", members, methods))


@overload
def dataclass(given: C, /) -> C: ...
@overload
def dataclass() -> Callable[[C], C]: ...
@dataclass_transform()
def dataclass(given: type | None = None, /) -> Any:
    """Decorator: a class whose annotations are members and whose functions are methods, as a struct type.

    Functions that kernels call are decorated with `@sg.func`. Raises StructError. Gives a `StructSpec`; type checkers
    see a dataclass, and its fields made by `sg.field(Ball, shape=n)`, as they let no decorator add `Ball.field`.
    """
    if given is None:
        return dataclass
    members = {}
    for name, kind in given.__dict__.get("__annotations__", {}).items():
        members[name] = _evaluated(kind, given)
    methods = {name: value for name, value in vars(given).items() if callable(value) and not name.startswith("__")}
    made = struct_type(given.__name__, members, methods)
    return StructSpec(made, given)


def _evaluated(kind: Any, home: type) -> Any:
    """An annotation; one that is text, as under `from __future__ import annotations`, is evaluated in its module."""
    if not isinstance(kind, str):
        return kind
    import sys

    names = vars(sys.modules.get(home.__module__, sys))
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != home.__module__:
        frame = frame.f_back  # type: ignore[assignment]
    local: Mapping[str, Any] = frame.f_locals if frame is not None else {}
    try:
        return eval(kind, dict(names), dict(local))
    except Exception as problem:
        raise StructError(f"the annotation {kind!r} of {home.__name__}: {problem}", "annotate with a type") from None


def _flat(parts: Iterable[Any]) -> Iterable[Any]:
    for part in parts:
        if hasattr(part, "__iter__") and not isinstance(part, str):
            yield from _flat(part)
        else:
            yield part


def __getattr__(name: str) -> Any:
    if refusal_of(f"types.{name}") is not None:
        return Refused(f"types.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "MatrixSpec",
    "NDArray",
    "StructSpec",
    "Template",
    "dataclass",
    "matrix",
    "ndarray",
    "primitive_types",
    "struct",
    "template",
    "vector",
    *SCALARS,
]
