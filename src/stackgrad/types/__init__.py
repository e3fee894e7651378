"""Define `sg.types`: the types of scalars, vectors, matrices and structs, and the annotations of arrays.

Invariant: a public type object carries the frontend's type as `stackgrad_type`. Python's float, int and bool stay in it
until a kernel is traced or memory is made, because the defaults of `sg.init` decide what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform, overload

from ..compiler.frontend.aggregates import MatrixType, NdarrayType, Template
from ..compiler.frontend.refused_names import RefusedName, refusal_of
from ..compiler.ir.documented import documented
from ..compiler.ir.types import SCALARS, Scalar
from ..data import primitive_types
from ..data.annotations import annotated_element
from ..data.compound_types import MatrixSpec, StructSpec
from ..data.primitive_types import *  # noqa: F403 - the scalar types are names of this module too
from ..data.values.makers import extent
from ..data.values.struct_types import element_type, struct_type
from ..runtime.usage_errors import StructError

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
        """Return the annotation that a subscript selects, as in `sg.types.NDArray[sg.f32, 2]`."""
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
