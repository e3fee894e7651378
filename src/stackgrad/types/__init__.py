"""Define `sg.types`: the types of elements (scalars, vectors, matrices, structs) and the annotations of arrays.

Invariant: a public type object carries the frontend's type as `stackgrad_type`. Python's float, int and bool stay in it
until a kernel is traced or memory is made, because the defaults of `sg.init` decide what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Unpack, dataclass_transform, overload

from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, NdarrayType, StructType, Template
from ..compiler.frontend.refused import Refused, refusal_of
from ..compiler.ir.types import SCALARS, Scalar
from ..data import primitive_types
from ..data.annotations import annotated_element
from ..data.dtypes import scalar_type
from ..data.fields import MatrixField, MatrixNdarray, StructField, matrix_field, struct_field
from ..data.fields.kinds import CompoundOptions, FieldOptions, Shape
from ..data.ndarrays import matrix_ndarray
from ..data.primitive_types import *  # noqa: F403 - the scalar types are names of this module too
from ..data.values import Matrix, Struct, Vector
from ..data.values.makers import extent
from ..data.values.struct import as_struct
from ..data.values.struct_types import element_type, struct_type
from ..runtime.usage import MatrixError, StructError

template = Template
C = TypeVar("C", bound=type)


class MatrixSpec:
    """A vector or matrix type; a call makes a value, `field` and `ndarray` make memory of such elements."""

    __slots__ = (TYPE_ATTRIBUTE,)
    stackgrad_type: MatrixType

    def __init__(self, kind: MatrixType) -> None:
        self.stackgrad_type = kind

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return self.stackgrad_type.shape[0]

    @property
    def m(self) -> int:
        """Return the number of columns, which is 1 for a vector."""
        return self.stackgrad_type.shape[1] if self.ndim == 2 else 1

    @property
    def ndim(self) -> int:
        """Return the number of axes: 1 for a vector, 2 for a matrix."""
        return len(self.stackgrad_type.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a value: (n,) or (n, m)."""
        return self.stackgrad_type.shape

    @property
    def dtype(self) -> Scalar:
        """Return the scalar type of the entries under the present defaults."""
        return scalar_type(self.stackgrad_type.dtype)

    def __call__(self, *parts: Any) -> Matrix:
        """Return a value of this type.

        Args:
            *parts: All entries in order, as numbers, vectors and sequences; or one number for all entries.

        Raises:
            MatrixError: The number of entries is wrong.
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
        """Return a new field of such elements; the options are those of `sg.Vector.field`."""
        return matrix_field(self.shape, self.dtype, shape, **options)

    def ndarray(self, shape: Shape, needs_grad: bool = False) -> MatrixNdarray:
        """Return a new ndarray of such elements, filled with zeros."""
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
    """A struct type; a call makes a value of members given by name or in order, with 0 for missing ones."""

    def __init__(self, kind: StructType, home: type | None = None) -> None:
        self.stackgrad_type = kind
        self.__name__ = kind.name or "struct"
        self.__doc__ = home.__doc__ if home is not None else None
        self.__module__ = home.__module__ if home is not None else __name__

    @property
    def members(self) -> dict[str, Any]:
        """Return the types of the members by name, in order."""
        return dict(self.stackgrad_type.members)

    @property
    def methods(self) -> Mapping[str, Any]:
        """Return the methods by name."""
        return self.stackgrad_type.methods

    def __call__(self, *parts: Any, **named: Any) -> Struct:
        """Return a value of this type.

        Args:
            *parts: Members in order, or one struct or mapping with all of them.
            **named: Members by name.

        Raises:
            StructError: A member is unknown or given twice, or a value does not fit.
        """
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
        """Return a new field of such structs.

        Args:
            shape: An extent or a tuple of extents; None for a field that is placed later.
            methods: Further methods by name.
            **options: needs_grad, needs_dual, name, layout; see `sg.field`.
        """
        kind = self.stackgrad_type
        if methods:
            kind = StructType(kind.name, kind.members, {**kind.methods, **methods})
        return struct_field(kind, shape, **options)

    def __repr__(self) -> str:
        return f"<sg struct type {self.__name__}({', '.join(self.stackgrad_type.names)})>"


class NdarrayMaker(NdarrayType):
    """The type of `sg.types.ndarray`, an annotation that can be called or subscripted for a more precise one."""

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
        """Return the annotation of an array argument.

            def scale(x: sg.types.ndarray(sg.f32, ndim=2)): ...

        Args:
            dtype: The element type: a scalar, vector or matrix type. What is None is taken from the argument.
            ndim: Number of axes.
            element_dim: Accepted for programs of the dialect, without effect.
            element_shape: The shape of an element of vectors or matrices, if `dtype` is a scalar type.
            field_dim: Another name of `ndim`.
            needs_grad: True if the array must have an adjoint, False if an adjoint is ignored.
            boundary: Only "unsafe" is accepted.

        Raises:
            FieldError: The dtype or the boundary does not fit.
        """
        element = annotated_element(dtype, boundary)
        if element_shape and isinstance(element, Scalar):
            element = MatrixType(tuple(element_shape), element)
        return NdarrayType(element, ndim if ndim is not None else field_dim, needs_grad)

    def __getitem__(self, given: Any) -> Any:
        """Return the annotation for `sg.types.NDArray[sg.f32, 2]`."""
        return self(*given) if isinstance(given, tuple) else self(given)


ndarray = NDArray = NdarrayMaker()


def vector(n: int, dtype: Scalar | type) -> MatrixSpec:
    """Return the type of vectors of n entries.

        velocity = sg.types.vector(3, sg.f32)
        v = velocity(1.0, 0.0, 0.0)

    Args:
        n: Number of entries.
        dtype: A scalar type, or float, int or bool for the default types of `sg.init`.
    """
    return MatrixSpec(MatrixType((extent(n, "n"),), element_type(dtype)))


def matrix(n: int, m: int, dtype: Scalar | type) -> MatrixSpec:
    """Return the type of matrices of n rows and m columns.

    Args:
        n: Number of rows.
        m: Number of columns.
        dtype: A scalar type, or float, int or bool for the default types of `sg.init`.
    """
    return MatrixSpec(MatrixType((extent(n, "n"), extent(m, "m")), element_type(dtype)))


def struct(**members: Any) -> StructSpec:
    """Return the type of structs with these members.

        ball = sg.types.struct(center=sg.types.vector(3, float), radius=float)

    Args:
        **members: The type of each member by name. The name `__struct_methods` is reserved for functions by name.
    """
    methods = members.pop("__struct_methods", {})
    return StructSpec(struct_type("", members, methods))


@overload
def dataclass(given: C, /) -> C: ...
@overload
def dataclass() -> Callable[[C], C]: ...
@dataclass_transform()
def dataclass(given: type | None = None, /) -> Any:
    """Turn a class into a struct type; use it as a class decorator.

    Annotations of the class become members, and its functions methods. Functions that kernels call are decorated with
    `@sg.func`. Type checkers see a dataclass, because no decorator can add `Ball.field` for them; they know fields that
    are made by `sg.field(Ball, shape=n)`.

    Returns:
        A `StructSpec`.

    Raises:
        StructError: A member has an annotation that is no element type.
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
    """Return an annotation, evaluated in its module if it is text, as under `from __future__ import annotations`."""
    if not isinstance(kind, str):
        return kind
    import sys

    names = vars(sys.modules.get(home.__module__, sys))
    # The class may be defined in a function, whose local names the annotation may use: look for that frame.
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != home.__module__:
        frame = frame.f_back  # type: ignore[assignment]
    local: Mapping[str, Any] = frame.f_locals if frame is not None else {}
    try:
        return eval(kind, dict(names), dict(local))
    except Exception as problem:
        raise StructError(f"the annotation {kind!r} of {home.__name__}: {problem}", "annotate with a type") from None


def _flat(parts: Iterable[Any]) -> Iterable[Any]:
    """Yield the entries of nested sequences in order."""
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
