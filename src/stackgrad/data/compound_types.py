"""Define the types of vectors, matrices and structs that users call to make values, fields or ndarrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from ..compiler.frontend.aggregates import ANY, TYPE_ATTRIBUTE, MatrixType, StructType
from ..compiler.ir.documented import documented
from ..compiler.ir.types import Scalar
from ..runtime.usage_errors import MatrixError, StructError
from .dtypes import scalar_type
from .fields import MatrixField, MatrixNdarray, StructField, matrix_field, struct_field
from .fields.kinds import CompoundOptions, FieldOptions, ShapeLike
from .ndarrays import matrix_ndarray
from .values import Matrix, Struct, Vector
from .values.struct import as_struct


def _spec_text(spec: MatrixSpec) -> str:
    """Return the docstring for a vector or matrix type that the user has made."""
    kind = spec.stackgrad_type.dtype
    number = {float: "the default real type", int: "the default integer type", bool: "booleans"}
    entries = f"of {number[kind]}" if isinstance(kind, type) else "of any type" if kind is ANY else f"of type {kind}"
    what = f"vectors of {spec.n}" if spec.ndim == 1 else f"matrices of {spec.n} by {spec.m}"
    return (
        f"Represent {what} entries {entries}.\n\nA call makes a value of entries in order or of one entry for all;"
        " `field` and `ndarray` make memory of such elements."
    )


@documented(_spec_text)
class MatrixSpec:
    """Represent a vector or matrix type: a call makes a value; `field` and `ndarray` make arrays of such elements."""

    __slots__ = (TYPE_ATTRIBUTE,)
    stackgrad_type: MatrixType

    def __init__(self, kind: MatrixType) -> None:
        self.stackgrad_type = kind

    @property
    def n(self) -> int:
        """Return the number of rows of a value of this type."""
        return self.stackgrad_type.shape[0]

    @property
    def m(self) -> int:
        """Return the number of columns of a value of this type, which is 1 for a vector."""
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
        """Return the scalar type of the entries under the present settings of the runtime."""
        kind = self.stackgrad_type.dtype
        return scalar_type(float if kind is ANY else kind)

    def __call__(self, *parts: Any) -> Matrix:
        """Return a vector or matrix of this type with the given entries.

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

    def field(self, shape: ShapeLike | None = None, **options: Unpack[FieldOptions]) -> MatrixField:
        """Return a new field whose elements have this type; the options are those of `sg.Vector.field`."""
        return matrix_field(self.shape, self.dtype, shape, **options)

    def ndarray(self, shape: ShapeLike, needs_grad: bool = False) -> MatrixNdarray:
        """Return a new ndarray whose elements have this type, filled with zeros."""
        return matrix_ndarray(self.shape, self.dtype, shape, needs_grad)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixSpec) and self.stackgrad_type == other.stackgrad_type

    def __hash__(self) -> int:
        return hash(self.stackgrad_type)

    def __repr__(self) -> str:
        kind = "vector" if self.ndim == 1 else "matrix"
        given = self.stackgrad_type.dtype
        dtype = () if given is ANY else (getattr(given, "name", getattr(given, "__name__", "")),)
        return f"sg.types.{kind}({', '.join(map(str, (*self.shape, *dtype)))})"


class StructSpec:
    """Represent a struct type; a call makes a struct value from members by name or in order, 0 where missing."""

    # The type of a member is Any: a scalar, vector, matrix or struct type, or Python's int or float. A member is Any
    # as in `Struct`; a method is any function.
    def __init__(self, kind: StructType, home: type | None = None) -> None:
        self.stackgrad_type = kind
        self.__name__ = kind.name or "struct"
        self.__doc__ = home.__doc__ if home is not None else None
        self.__module__ = home.__module__ if home is not None else __name__

    @property
    def members(self) -> dict[str, Any]:
        """Return the types of the struct's members by name, in order."""
        return dict(self.stackgrad_type.members)

    @property
    def methods(self) -> Mapping[str, Any]:
        """Return the methods of the struct type by name."""
        return self.stackgrad_type.methods

    def __call__(self, *parts: Any, **named: Any) -> Struct:
        """Return a struct of this type with the given members; missing members are 0.

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
        self,
        shape: ShapeLike | None = None,
        methods: Mapping[str, Any] | None = None,
        **options: Unpack[CompoundOptions],
    ) -> StructField:
        """Return a new field whose elements have this struct type.

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


def _flat(parts: Iterable[Any]) -> Iterable[Any]:
    """Yield the entries of nested sequences, such as the rows of a matrix, one by one."""
    for part in parts:
        if hasattr(part, "__iter__") and not isinstance(part, str):
            yield from _flat(part)
        else:
            yield part
