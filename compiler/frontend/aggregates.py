"""Types that exist while a kernel is traced: vectors, matrices, structs and arrays of them.

Invariant: the IR holds none of these. A value of such a type is a tree of scalar values, a local of such a type a tree
of scalar locals, so that no pass, derivative rule or backend learns of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from ..ir.types import Scalar, adjoint_type
from .infer import FrontendOptions, as_dtype
from .operands import shape_text


@dataclass(frozen=True)
class MatrixType:
    """A vector (n,) or a matrix (n, m). The element type may be `float`, `int` or `bool` until `resolve` fixes it."""

    shape: tuple[int, ...]
    dtype: Scalar

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] if len(self.shape) == 1 else self.shape[0] * self.shape[1]

    def __str__(self) -> str:
        return f"{shape_text(self.shape)} of {getattr(self.dtype, 'name', self.dtype)}"


@dataclass(frozen=True)
class StructType:
    """Named members in order; methods are functions (`Func`) that take the struct as their first argument."""

    name: str
    members: tuple[tuple[str, ElementType], ...]
    methods: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Member names in order."""
        return tuple(name for name, _ in self.members)

    def __str__(self) -> str:
        return f"the struct {self.name}" if self.name else "a struct"


@dataclass(frozen=True)
class NdarrayType:
    """The annotation of an array argument. None: not fixed by the annotation, taken from the argument."""

    dtype: Scalar | MatrixType | None = None
    ndim: int | None = None
    needs_grad: bool | None = None


@dataclass(frozen=True)
class ViewType:
    """The annotation of a view. array: what it asks of the array behind the view, of one axis."""

    array: NdarrayType = NdarrayType(ndim=1)


@overload
def adjoint_element(kind: MatrixType) -> MatrixType: ...
@overload
def adjoint_element(kind: StructType) -> StructType: ...
@overload
def adjoint_element(kind: ElementType) -> ElementType: ...
def adjoint_element(kind: ElementType) -> ElementType:
    """The elements of the gradient of an array with elements of this type."""
    if isinstance(kind, StructType):
        members = tuple((name, adjoint_element(member)) for name, member in kind.members)
        return StructType(kind.name, members, kind.methods)
    if isinstance(kind, MatrixType):
        return MatrixType(kind.shape, adjoint_type(kind.dtype))
    return adjoint_type(kind)


class Template:
    """The annotation `sg.template()` or `sg.Template`.

    A kernel's parameter is then known when it is traced; a function's takes memory by reference.
    """

    def __repr__(self) -> str:
        return "sg.template()"


def is_template(annotation: Any) -> bool:
    """Whether an annotation, quoted or not, is `sg.template()`."""
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].partition("(")[0].strip().lower() == "template"
    mark = getattr(annotation, "stackgrad_annotation", None)
    return isinstance(annotation, Template) or annotation is Template or mark == "template"


VIEW = "bufferview"
"""How the class of views is marked as an annotation."""


def view_type(annotation: Any) -> ViewType | None:
    """What an annotation asks of a view; None if it means none."""
    if isinstance(annotation, ViewType):
        return annotation
    return ViewType() if getattr(annotation, "stackgrad_annotation", None) == VIEW else None


ElementType = Scalar | MatrixType | StructType
"""What a local, an argument or an element of a field may be."""


@dataclass(frozen=True)
class PackType:
    """A local list or tuple of known length: numbers, vectors, structs, or packs again. No field holds one."""

    items: tuple[LocalType, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.items)}"


LocalType = Scalar | MatrixType | StructType | PackType
"""What a local may be."""

TYPE_ATTRIBUTE = "stackgrad_type"
"""Where public type objects (`sg.types.vector(...)`, what `@sg.dataclass` makes) carry the type they mean."""


def aggregate_type(value: Any, options: FrontendOptions) -> MatrixType | StructType | None:
    """The vector, matrix or struct type that an object is or carries, its element types fixed; None if it is none."""
    found = value if isinstance(value, (MatrixType, StructType)) else getattr(value, TYPE_ATTRIBUTE, None)
    if isinstance(found, MatrixType):
        return MatrixType(found.shape, _scalar(found.dtype, options))
    if isinstance(found, StructType):
        members = tuple((name, element_type(member, options)) for name, member in found.members)
        return StructType(found.name, members, found.methods)
    return None


def element_type(value: Any, options: FrontendOptions) -> ElementType:
    """The type, scalar or not, that an object means. Raises TypeError if it means none."""
    return aggregate_type(value, options) or _scalar(value, options)


def find_type(value: Any, options: FrontendOptions) -> ElementType | None:
    """Like `element_type`, or None."""
    return aggregate_type(value, options) or as_dtype(value, options)


def _scalar(value: Any, options: FrontendOptions) -> Scalar:
    found = as_dtype(value, options)
    if found is None:
        raise TypeError(f"{value!r} is no element type")
    return found
