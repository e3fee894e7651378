"""Define `sg.types`: the types of scalars, vectors, matrices and structs, and the annotations of arrays.

Invariant: a public type object has an attribute `stackgrad_type`, the type for the compiler frontend. It keeps Python's
float, int and bool until a kernel is traced or memory is allocated, because the options of `sg.init` decide what these
types mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform, overload

from ..compiler.frontend.aggregates import ANY, MatrixType, NdarrayType, Template
from ..compiler.frontend.refused_names import RefusedName, refusal_of
from ..compiler.ir.documented import documented
from ..compiler.ir.types import SCALARS, Scalar
from ..data import primitive_types
from ..data.annotations import annotated_element
from ..data.compound_types import MatrixSpec, StructSpec
from ..data.primitive_types import *  # noqa: F403 - the scalar types are names of this module too
from ..data.values.makers import extent
from ..data.values.struct_types import element_type, struct_type
from ..runtime.usage_errors import FieldError, StructError

template = Template
C = TypeVar("C", bound=type)


_NDARRAY = """\
Annotate an array argument: `x: sg.types.ndarray(dtype, ndim)` or `x: sg.types.NDArray[dtype, ndim]`.

Alone, `x: sg.types.ndarray()` takes arrays of any element type and any number of axes."""


@documented(_NDARRAY)
class NdarrayMaker(NdarrayType):
    """Represent `sg.types.ndarray`, an annotation of array parameters that a call or subscript can make stricter."""

    # An element type is Any: a scalar, vector, matrix or struct type, or Python's int or float. So is the annotation:
    # no type checker knows the form.
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
        """Return an annotation for an array parameter with this element type and number of axes.

            def scale(x: sg.types.ndarray(sg.f32, ndim=2)): ...

        Args:
            dtype: The element type: a scalar, vector or matrix type. What is None is taken from the argument.
            ndim: Number of axes.
            element_dim: Number of the last axes that form one element: 1 for vectors, 2 for matrices. The array decides
                their extents.
            element_shape: The shape of an element of vectors or matrices, if `dtype` is a scalar type.
            field_dim: Another name of `ndim`.
            needs_grad: True if the array must have an adjoint, False if an adjoint is ignored.
            boundary: Only "unsafe" is accepted.

        Raises:
            FieldError: The dtype or the boundary does not fit.
        """
        element = annotated_element(dtype, boundary)
        if element_shape and not isinstance(element, MatrixType):
            element = MatrixType(tuple(element_shape), ANY if element is None else element)
        axes = None if isinstance(element, MatrixType) else _element_axes(element_dim)
        return NdarrayType(element, ndim if ndim is not None else field_dim, needs_grad, axes)

    def __getitem__(self, given: Any) -> Any:
        """Return the annotation that a subscript selects, as in `sg.types.NDArray[sg.f32, 2]`."""
        return self(*given) if isinstance(given, tuple) else self(given)


def _element_axes(element_dim: int | None) -> int | None:
    """Return the number of axes of an element, or None if an element is a number or of any type."""
    if element_dim not in (None, 0, 1, 2):
        raise FieldError(f"there are no elements of {element_dim!r} axes", "give 1 for vectors or 2 for matrices")
    return element_dim or None


ndarray = NDArray = NdarrayMaker()


def vector(n: int, dtype: Scalar | type | None = None) -> MatrixSpec:
    """Return the type of vectors of n entries.

        velocity = sg.types.vector(3, sg.f32)
        v = velocity(1.0, 0.0, 0.0)

    Args:
        n: Number of entries.
        dtype: A scalar type, or float, int or bool for the default types of `sg.init`. Without one, a parameter of a
            func takes vectors of any type, as an annotated array does; values and memory are of the default real type.
    """
    return MatrixSpec(MatrixType((extent(n, "n"),), _entry_type(dtype)))


def matrix(n: int, m: int, dtype: Scalar | type | None = None) -> MatrixSpec:
    """Return the type of matrices of n rows and m columns.

    Args:
        n: Number of rows.
        m: Number of columns.
        dtype: A scalar type, or float, int or bool for the default types of `sg.init`, or None as in `vector`.
    """
    return MatrixSpec(MatrixType((extent(n, "n"), extent(m, "m")), _entry_type(dtype)))


def _entry_type(dtype: Scalar | type | None) -> Scalar:
    """Return the type of the entries of a vector or matrix type. Raise FieldError if `dtype` is no scalar type."""
    found: Scalar = ANY if dtype is None else element_type(dtype)
    return found


# The type of a member is Any: a scalar, vector, matrix or struct type, or Python's int or float.
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
# Users see the overloads.
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
    """Return an annotation; if it is a string, evaluate it in the module of the class `home`."""
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


def __getattr__(name: str) -> Any:
    if refusal_of(f"types.{name}") is not None:
        return RefusedName(f"types.{name}")
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
