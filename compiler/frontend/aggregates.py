"""This module defines the types that exist only while a kernel is traced: vectors, matrices, structs and their arrays.

Invariant: the IR holds none of these. A value of such a type is a tree of scalar values, and a local of such a type is
a tree of scalar locals, so no pass, derivative rule or backend needs to know these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from ..ir.types import Scalar, adjoint_type
from .operands import shape_text
from .type_inference import FrontendOptions, as_dtype


@dataclass(frozen=True)
class MatrixType:
    """Represent the type of a vector, with shape (n,), or of a matrix, with shape (n, m).

    Attributes:
        shape: extents of the vector or matrix.
        dtype: type of the entries; it may be `float`, `int` or `bool` until `aggregate_type` resolves it. `ANY` stands
            for the type of the value or array that is given, where the type is an annotation.
    """

    shape: tuple[int, ...]
    dtype: Scalar

    @property
    def size(self) -> int:
        """Return the number of entries."""
        return self.shape[0] if len(self.shape) == 1 else self.shape[0] * self.shape[1]

    def __str__(self) -> str:
        entries = "" if self.dtype is ANY else f" of {getattr(self.dtype, 'name', self.dtype)}"
        return shape_text(self.shape) + entries


ANY: Scalar = None  # type: ignore[assignment]  # one value apart from the scalar types, which all code compares by name
"""Type of the entries of `sg.types.vector(3)`: whatever the value or array holds that is given."""


@dataclass(frozen=True)
class StructType:
    """Represent the type of a struct, with the names and types of its members.

    Attributes:
        name: name of the type, "" if it has none.
        members: names and types of the members, in order.
        methods: functions (`Func`) that take the struct as their first argument, by name.
    """

    name: str
    members: tuple[tuple[str, ElementType], ...]
    methods: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the members in order."""
        return tuple(name for name, _ in self.members)

    def __str__(self) -> str:
        return f"the struct {self.name}" if self.name else "a struct"


@dataclass(frozen=True)
class NdarrayType:
    """Represent the annotation of an array argument; an attribute is None if the annotation does not specify it.

    Attributes:
        dtype: type of an element.
        ndim: number of axes.
        needs_grad: True if the array must have a gradient.
        element_ndim: number of axes of an element: 1 for vectors, 2 for matrices; the array decides their extents.
    """

    dtype: Scalar | MatrixType | None = None
    ndim: int | None = None
    needs_grad: bool | None = None
    element_ndim: int | None = None


@dataclass(frozen=True)
class ViewType:
    """Represent the annotation of a parameter that is a view, with its requirements on the array of the view.

    Attributes:
        array: requirements on the array of which the view is a part; the array has one axis.
    """

    array: NdarrayType = NdarrayType(ndim=1)


@overload
def adjoint_element(kind: MatrixType) -> MatrixType: ...
@overload
def adjoint_element(kind: StructType) -> StructType: ...
@overload
def adjoint_element(kind: ElementType) -> ElementType: ...


def adjoint_element(kind: ElementType) -> ElementType:
    """Return the type of the elements of the gradient of an array with elements of this type."""
    if isinstance(kind, StructType):
        members = tuple((name, adjoint_element(member)) for name, member in kind.members)
        return StructType(kind.name, members, kind.methods)
    if isinstance(kind, MatrixType):
        return MatrixType(kind.shape, adjoint_type(kind.dtype))
    return adjoint_type(kind)


class Template:
    """Represent the annotation `sg.template()` or `sg.Template` of a parameter of a kernel or func.

    A parameter of a kernel with this annotation is known when the kernel is traced. A parameter of a func with this
    annotation takes memory by reference.
    """

    def __repr__(self) -> str:
        return "sg.template()"


def is_template(annotation: Any) -> bool:
    """Return True if an annotation, quoted or not, is `sg.template()`."""
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].partition("(")[0].strip().lower() == "template"
    mark = getattr(annotation, "stackgrad_annotation", None)
    return isinstance(annotation, Template) or annotation is Template or mark == "template"


VIEW = "bufferview"
"""This text marks the class of views as an annotation."""


def view_type(annotation: Any) -> ViewType | None:
    """Return the ViewType that an annotation denotes, or None if it is not the annotation of a view."""
    if isinstance(annotation, ViewType):
        return annotation
    return ViewType() if getattr(annotation, "stackgrad_annotation", None) == VIEW else None


ElementType = Scalar | MatrixType | StructType
"""Type of what a local, an argument or an element of a field may be."""


@dataclass(frozen=True)
class PackType:
    """Represent the type of a local list or tuple of known length, which cannot be the type of a field.

    Attributes:
        items: types of the items: numbers, vectors, matrices, structs, or nested lists and tuples.
    """

    items: tuple[LocalType, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.items)}"


LocalType = Scalar | MatrixType | StructType | PackType
"""Type of what a local may be."""

TYPE_ATTRIBUTE = "stackgrad_type"
"""This attribute of public type objects (`sg.types.vector(...)`, a `@sg.dataclass`) holds the type that they mean."""


def aggregate_type(value: Any, options: FrontendOptions, is_open: bool = False) -> MatrixType | StructType | None:
    """Return the type if an object is, or is an instance of, a vector, matrix or struct type, else None.

    Args:
        value: the object.
        options: types that `float` and `int` stand for in element types.
        is_open: True if the entries of a vector or matrix may be of `ANY` type; else they are of the default real type.

    Raises:
        TypeError: the type of an entry or member is no type of the kernel language.
    """
    found = value if isinstance(value, (MatrixType, StructType)) else getattr(value, TYPE_ATTRIBUTE, None)
    if isinstance(found, MatrixType):
        dtype = (
            ANY if is_open and found.dtype is ANY else _scalar(float if found.dtype is ANY else found.dtype, options)
        )
        return MatrixType(found.shape, dtype)
    if isinstance(found, StructType):
        members = tuple((name, element_type(member, options)) for name, member in found.members)
        return StructType(found.name, members, found.methods)
    return None


def element_type(value: Any, options: FrontendOptions) -> ElementType:
    """Return the scalar, vector, matrix or struct type that an object, such as a Python type, denotes.

    Raises:
        TypeError: the object denotes no type of the kernel language.
    """
    return aggregate_type(value, options) or _scalar(value, options)


def find_type(value: Any, options: FrontendOptions, is_open: bool = False) -> ElementType | None:
    """Return the type that an object denotes, or None if it denotes no type, where `element_type` raises TypeError."""
    return aggregate_type(value, options, is_open) or as_dtype(value, options)


def _scalar(value: Any, options: FrontendOptions) -> Scalar:
    found = as_dtype(value, options)
    if found is None:
        raise TypeError(f"{value!r} is no element type")
    return found
